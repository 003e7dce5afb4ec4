/* TEST np=1,2,3,4,8 backend=cpu timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement: the most severe status wins, the record of the lowest rank with it is
 * everyone's, and that rank alone prints it, once. */
#include "regression/mpi/ranks.h"

#include "penta/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int saved_stderr;

static void capture(void)
{
    char name[32];
    int file;

    fflush(stderr);
    snprintf(name, sizeof name, "stderr.%d", ranks.rank);
    saved_stderr = dup(2);
    file = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 2);
    close(file);
}

/* How often `text` was printed since capture. */
static int captured(const char *text)
{
    static char buffer[1 << 16];
    char name[32];
    int count = 0;
    FILE *file;

    fflush(stderr);
    dup2(saved_stderr, 2);
    close(saved_stderr);
    snprintf(name, sizeof name, "stderr.%d", ranks.rank);
    file = fopen(name, "r");
    buffer[file ? fread(buffer, 1, sizeof buffer - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    for (char *at = buffer; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void everything_fine(void)
{
    pt_error_clear();
    tap_all(pt_comm_agree(ranks.world, PT_OK, false) == PT_OK &&
                pt_error_last()->status == PT_OK,
            "all fine: no record");
    tap_all(pt_comm_agree(ranks.world, ranks.rank == ranks.size - 1 ? PT_STOPPED : PT_OK,
                          false) == PT_STOPPED &&
                pt_error_last()->status == PT_OK,
            "a stop of the last rank stops all, without a record");
}

/* Rank r fails with status[r mod 4]; `worst` by rank `speaker`. */
static void failing(const pt_status_t status[4], pt_status_t worst, int speaker,
                    bool quiet)
{
    pt_status_t mine = status[ranks.rank % 4];
    char text[64];
    const pt_error_t *error = pt_error_last();
    int printed;

    pt_error_clear();
    capture();
    if (mine > PT_ABORTED)
        (void)PT_FAIL_OS(mine, EDQUOT - ranks.rank, "failure of rank %d.", ranks.rank);
    mine = pt_comm_agree(ranks.world, mine, quiet);
    printed = captured("failure of rank");
    snprintf(text, sizeof text, "failure of rank %d.", speaker);
    tap_all(mine == worst && error->status == worst && strcmp(error->text, text) == 0 &&
                error->os_error == EDQUOT - speaker &&
                error->scope == PT_SCOPE_COMMON && error->reported == !quiet,
            "%s: everyone has the record of rank %d", pt_status_name(worst), speaker);
    tap_all(printed == (ranks.rank == speaker && !quiet), "printed %s",
            quiet ? "by nobody" : "by that rank, once");
    tap_all(!pt_error_is_fatal(), "nothing fatal is left");
    capture();
    pt_error_print();
    tap_all(captured("failure of rank") == (quiet && ranks.rank == 0),
            quiet ? "later by rank 0" : "and by nobody later");
    pt_error_clear();
}

/* A failure with no record gets one. */
static void unexplained(void)
{
    bool last = ranks.rank == ranks.size - 1;

    capture();
    pt_status_t agreed = pt_comm_agree(ranks.world, last ? PT_MEMORY : PT_OK, true);
    int printed = captured("error");
    tap_all(agreed == PT_MEMORY && printed == 0 &&
                strcmp(pt_error_last()->text, pt_status_sentence(PT_MEMORY)) == 0,
            "a failure without a record: its sentence");
    pt_error_clear();
}

static void subgroups(void)
{
    int odd = ranks.rank % 2;
    pt_comm_place_t half = {odd, ranks.rank / 2, (ranks.size + 1 - odd) / 2};
    pt_comm_t *comm;
    pt_status_t agreed;

    MUST(pt_comm_split(ranks.world, half, "half", PT_AXIS_DATA, &comm));
    if (odd)
        (void)PT_FAIL(PT_IO, "odd rank %d", ranks.rank);
    agreed = pt_comm_agree(comm, odd ? PT_IO : PT_OK, true);
    tap_all(agreed == (odd ? PT_IO : PT_OK) &&
                strcmp(pt_error_last()->text, odd ? "odd rank 1" : "") == 0,
            "groups agree for themselves");
    pt_error_clear();
    pt_comm_free(comm);
}

static void wrong_split(void)
{
    pt_comm_t *comm = NULL, *none;
    pt_status_t status =
        pt_comm_split(ranks.world, (pt_comm_place_t){0, ranks.rank, ranks.size + 1},
                      "too large", PT_AXIS_DATA, &comm);

    tap_all(status == PT_INTERNAL && strstr(pt_error_last()->text, "too large"),
            "a split that is not what it should be: %s", pt_error_last()->text);
    pt_error_clear();
    pt_comm_free(comm);
    MUST(pt_comm_split(ranks.world, (pt_comm_place_t){-1, 0, 0}, "none", PT_AXIS_DATA,
                       &none));
    tap_all(none == NULL, "a negative color: no communicator");
    pt_comm_free(none);
}

static void small_collectives(void)
{
    int64_t values[2] = {ranks.rank, -ranks.rank}, all[64];
    int64_t size = ranks.size, total = size * (size - 1) / 2;
    int root = ranks.size - 1;
    bool ok = true;

    MUST(pt_comm_sum_int64(ranks.world, values, 2));
    ok = values[0] == total && values[1] == -total;
    values[0] = ranks.rank, values[1] = -ranks.rank;
    MUST(pt_comm_max_int64(ranks.world, values, 2));
    ok = ok && values[0] == size - 1 && values[1] == 0;
    values[0] = 7 * ranks.rank;
    MUST(pt_comm_gather_bytes(ranks.world, root, values, sizeof values[0], all));
    for (int r = 0; r < size && ranks.rank == root; r++)
        ok = ok && all[r] == 7 * r;
    values[0] = ranks.rank == root ? 99 : 0;
    MUST(pt_comm_broadcast_bytes(ranks.world, root, values, sizeof values[0]));
    MUST(pt_comm_broadcast_bytes(ranks.world, 0, NULL, 0));
    MUST(pt_comm_barrier(ranks.world));
    tap_all(ok && values[0] == 99, "sum, max, gather, broadcast, barrier");
}

int main(int argc, char **argv)
{
    const pt_status_t one[4] = {PT_IO, PT_OK, PT_OK, PT_STOPPED};
    const pt_status_t two[4] = {PT_CONFIG, PT_NUMERIC, PT_NUMERIC, PT_IO};

    ranks_start(&argc, &argv);
    pt_log_set_rank(ranks.rank, ranks.size, "");
    ranks_open_engine(3);
    small_collectives();
    everything_fine();
    failing(one, PT_IO, 0, false);
    failing(two, ranks.size > 1 ? PT_NUMERIC : PT_CONFIG, ranks.size > 1, false);
    failing(two, ranks.size > 1 ? PT_NUMERIC : PT_CONFIG, ranks.size > 1, true);
    unexplained();
    subgroups();
    wrong_split();
    ranks_close_engine();
    return ranks_finish();
}
