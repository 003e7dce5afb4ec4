/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Which CPUs the ranks of a host get. */
#include "regression/tap.h"
#include "src/train/private.h"
#include <string.h>

/* CPUs of `set` as digits, all of them below 10. */
static const char *text(const cpu_set_t *set, char buffer[16])
{
    int length = 0;

    for (int cpu = 0; cpu < 10; cpu++)
        if (CPU_ISSET(cpu, set))
            buffer[length++] = (char)('0' + cpu);
    buffer[length] = '\0';
    return buffer;
}

static void expect(const char *allowed, int ranks, int threads, const char *const *want)
{
    cpu_set_t all, mine;
    char found[16];

    CPU_ZERO(&all);
    for (const char *digit = allowed; *digit; digit++)
        CPU_SET(*digit - '0', &all);
    for (int rank = 0; rank < ranks; rank++) {
        bool bound = pt_train_choose_cpus(&all, ranks, rank, threads, &mine);
        const char *expected = want ? want[rank] : "";
        tap_ok(bound == (want != NULL) && strcmp(text(&mine, found), expected) == 0,
               "CPUs %s, %d ranks of %d threads: rank %d has '%s'", allowed, ranks,
               threads, rank, found);
    }
}

int main(void)
{
    expect("01", 2, 1, (const char *const[]){"0", "1"});
    expect("0123", 2, 2, (const char *const[]){"01", "23"});
    expect("024689", 3, 2, (const char *const[]){"02", "46", "89"});
    expect("01", 1, 2, NULL);   /* all there are */
    expect("0123", 2, 1, NULL); /* others may want the rest */
    expect("01", 4, 1, NULL);   /* they take turns */
    expect("3", 4, 1, NULL);    /* bound by the launcher */
    return tap_done();
}
