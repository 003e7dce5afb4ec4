/* SPDX-License-Identifier: Apache-2.0 */
/* TAP for C tests, in one header. A test is one small main:
 *
 *     / * TEST np=1,2,4 backend=cpu timeout=60 * /     see regression/driver.sh
 *     #include "regression/tap.h"
 *     int main(void)
 *     {
 *         tap_ok(1 + 1 == 2, "one and one make %d", 2);
 *         return tap_done();
 *     }
 *
 * Under MPI call tap_mpi first: then only rank 0 prints, and no rank's failure is lost.
 * One thread; state is static, one translation unit a test. */
#ifndef PT_REGRESSION_TAP_H
#define PT_REGRESSION_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Sum of `value` over all ranks, the same on every rank. Collective. */
typedef int (*tap_sum_fn)(int value, void *context);

static struct {
    int count;  /* results printed (by rank 0), the same on all ranks if they agree */
    int failed; /* failures this rank knows of */
    int rank;   /* 0 without MPI */
    tap_sum_fn sum; /* NULL without MPI */
    void *context;
} tap_state;

/* Says which rank this is and how to add over ranks. Local; before the first result. */
__attribute__((unused)) static void tap_mpi(int rank, tap_sum_fn sum, void *context)
{
    tap_state.rank = rank;
    tap_state.sum = sum;
    tap_state.context = context;
}

static void tap_print(int ok, const char *format, va_list args)
{
    FILE *out = tap_state.rank == 0 ? stdout : stderr;

    tap_state.count++;
    tap_state.failed += !ok;
    if (ok && tap_state.rank != 0)
        return;
    if (tap_state.rank == 0)
        fprintf(out, "%sok %d - ", ok ? "" : "not ", tap_state.count);
    else
        fprintf(out, "# rank %d failed: ", tap_state.rank);
    vfprintf(out, format, args);
    fputc('\n', out);
    fflush(out);
}

/* One result. Local: on rank 0 it is printed; elsewhere a failure goes to stderr and is
 * counted by tap_done. Returns whether it holds. */
__attribute__((unused, format(printf, 2, 3))) static int tap_ok(int ok,
                                                                const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tap_print(ok, format, args);
    va_end(args);
    return ok;
}

/* One result that holds if it holds on every rank. Collective after tap_mpi. Returns
 * the agreed truth. */
__attribute__((unused, format(printf, 2, 3))) static int tap_all(int ok,
                                                                 const char *format, ...)
{
    va_list args;
    int bad = tap_state.sum ? tap_state.sum(!ok, tap_state.context) : !ok;

    if (!ok && tap_state.rank != 0)
        fprintf(stderr, "# rank %d disagrees with the next failed result\n",
                tap_state.rank);
    va_start(args, format);
    tap_print(bad == 0, format, args);
    va_end(args);
    return bad == 0;
}

/* A remark, from any rank. Local. */
__attribute__((unused, format(printf, 1, 2))) static void tap_note(const char *format,
                                                                   ...)
{
    va_list args;

    fputs("# ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* One result that cannot be had here. Local. */
__attribute__((unused)) static void tap_skip(const char *reason)
{
    tap_state.count++;
    if (tap_state.rank == 0)
        printf("ok %d # SKIP %s\n", tap_state.count, reason);
}

/* The whole test cannot run here: `return tap_skip_all("no device");` on every rank. */
__attribute__((unused)) static int tap_skip_all(const char *reason)
{
    if (tap_state.rank == 0)
        printf("1..0 # SKIP %s\n", reason);
    return 77;
}

/* Prints the plan; returns the exit status for main, 1 on every rank if any failed.
 * Collective after tap_mpi, so before MPI_Finalize. */
static int tap_done(void)
{
    int failed = tap_state.failed;

    if (tap_state.sum)
        failed = tap_state.sum(failed, tap_state.context);
    if (tap_state.rank == 0) {
        if (failed != 0 && tap_state.failed == 0)
            printf("not ok %d - %d failures on other ranks\n", ++tap_state.count,
                   failed);
        printf("1..%d\n", tap_state.count);
        fflush(stdout);
    }
    return failed != 0;
}

#endif
