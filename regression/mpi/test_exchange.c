/* TEST np=1,2,3,4,8 backend=cpu timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange at the end of a step: exact sums equal those of one rank that added
 * everything, in every bit; values add up; statuses agree. */
#include "regression/mpi/ranks.h"

#include "penta/base/normal.h"

#include <math.h>

enum { SUMS = 16, VALUES = 32, TERMS = 500 };

static double term(int rank, int sum, int i)
{
    double x = pt_normal(3, (uint64_t)(rank * SUMS + sum), i);

    return ldexp(x, (i * 37) % 600 - 300); /* 600 binary orders apart */
}

static double special(int rank, int sum)
{
    if (sum == 1 && rank == 0)
        return INFINITY;
    if (sum == 2 && rank == ranks.size - 1)
        return -INFINITY;
    if (sum == 3)
        return rank == 0 ? INFINITY : -INFINITY;
    return sum == 4 && rank == ranks.size - 1 ? NAN : 0;
}

static void add_terms(pt_sum_t *sum, int rank, int which)
{
    for (int i = 0; i < TERMS; i++)
        pt_sum_add(sum, term(rank, which, i));
    pt_sum_add(sum, special(rank, which));
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void sums_and_values(void)
{
    pt_sum_t sums[SUMS], serial[SUMS];
    int64_t values[VALUES];
    bool ok = true, nonfinite = true, added = true;

    for (int s = 0; s < SUMS; s++) {
        pt_sum_clear(&sums[s]);
        pt_sum_clear(&serial[s]);
        add_terms(&sums[s], ranks.rank, s);
        for (int r = ranks.size - 1; r >= 0; r--)
            add_terms(&serial[s], r, s);
    }
    for (int v = 0; v < VALUES; v++)
        values[v] = (int64_t)(v - 16) * (ranks.rank + 1) * 1000000000000;
    MUST(pt_comm_exchange(ranks.world, sums, SUMS, values, VALUES, PT_OK));
    for (int s = 0; s < SUMS; s++) {
        ok = ok && same(pt_sum_value(&sums[s]), pt_sum_value(&serial[s]));
        nonfinite =
            nonfinite && pt_sum_nonfinite(&sums[s]) == pt_sum_nonfinite(&serial[s]);
    }
    for (int v = 0; v < VALUES; v++)
        added = added && values[v] == (int64_t)(v - 16) * ranks.size *
                                          (ranks.size + 1) / 2 * 1000000000000;
    tap_all(ok, "sums are those of one rank, in every bit");
    tap_all(nonfinite && isinf(pt_sum_value(&sums[1])) && isnan(pt_sum_value(&sums[4])),
            "infinities and NaN are counted");
    tap_all(added, "values add up");
}

static void statuses(void)
{
    int64_t value = 1;
    bool last = ranks.rank == ranks.size - 1;
    pt_status_t agreed;

    agreed =
        pt_comm_exchange(ranks.world, NULL, 0, &value, 1, last ? PT_STOPPED : PT_OK);
    tap_all(agreed == PT_STOPPED && value == ranks.size, "a stop comes with the sums");
    if (ranks.rank > 0 || last)
        (void)PT_FAIL(PT_NUMERIC, "loss of rank %d", ranks.rank);
    agreed = pt_comm_exchange(ranks.world, NULL, 0, &value, 1,
                              ranks.rank > 0 || last ? PT_NUMERIC : PT_OK);
    tap_all(agreed == PT_NUMERIC && value == ranks.size * (int64_t)ranks.size &&
                strcmp(pt_error_last()->text,
                       ranks.size > 1 ? "loss of rank 1" : "loss of rank 0") == 0,
            "a failure brings the record of the lowest rank");
    pt_error_clear();
    agreed = pt_comm_exchange(ranks.world, NULL, 17, NULL, 0, PT_OK);
    tap_all(agreed == PT_INTERNAL, "17 sums: %s", pt_error_last()->text);
    pt_error_clear();
}

int main(int argc, char **argv)
{
    ranks_start(&argc, &argv);
    ranks_open_engine(0);
    sums_and_values();
    statuses();
    ranks_close_engine();
    return ranks_finish();
}
