/* SPDX-License-Identifier: Apache-2.0 */
#include "src/limits.h"

#include "penta/comm/comm.h"
#include "penta/ops/device.h"
#include "penta/base/log.h"
#include "penta/base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    FOR_MPI = 256 << 20, /* address space, including that of the BLAS */
    THREADS_OF_MPI = 1
};

/* The main thread has the stack that `ulimit -s` allows; the constructors of the
 * libraries alone need 40 KiB. Other threads have the same by default, but theirs can
 * be raised. */
static bool limits_take_stack(void)
{
    static const char refusal[] =
        "penta: error: the stack of a process is too small (ulimit -s, below 64): "
        "raise the limit (Slurm copies it from the shell that submitted the job: "
        "sbatch --propagate=NONE)\n";
    const rlim_t enough = 8 << 20, least = 64 << 10;
    const size_t for_thread = 1 << 20;
    struct rlimit stack;
    pthread_attr_t attributes;
    size_t bytes;

    if (getrlimit(RLIMIT_STACK, &stack) != 0)
        return true;
    if (stack.rlim_cur < enough) {
        stack.rlim_cur = stack.rlim_max < enough ? stack.rlim_max : enough;
        (void)setrlimit(RLIMIT_STACK, &stack);
    }
    if (stack.rlim_cur < least) {
        (void)!write(STDERR_FILENO, refusal, sizeof refusal - 1);
        return false;
    }
    if (pthread_getattr_default_np(&attributes) != 0)
        return true;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < for_thread &&
        pthread_attr_setstacksize(&attributes, for_thread) == 0)
        (void)pthread_setattr_default_np(&attributes);
    (void)pthread_attr_destroy(&attributes);
    return true;
}

/* Batch systems pass on the limits of the login node. */
bool limits_take(void)
{
    struct rlimit files;

    signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` fails with EFBIG */
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe fails with EPIPE */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    return limits_take_stack();
}

/* At the hard limit the kernel kills the process, and `ulimit -t` sets the soft limit
 * to the same value. */
void limits_take_cpu_time(void)
{
    const rlim_t longest = 300;
    struct rlimit cpu;

    if (getrlimit(RLIMIT_CPU, &cpu) != 0 || cpu.rlim_max == RLIM_INFINITY ||
        cpu.rlim_cur < cpu.rlim_max)
        return;
    rlim_t left = cpu.rlim_max / 10 + 1;
    cpu.rlim_cur = cpu.rlim_max - (left < longest ? left : longest);
    (void)setrlimit(RLIMIT_CPU, &cpu);
}

/* One of the few mutable globals: a library that fails to start ends the process, so
 * only atexit can tell. */
static bool mpi_is_starting;

/* Limits that MPICH over UCX needs; below them it crashes, or ends the process with its
 * own exit code. It started with 20 open files alone, with 32 as one of two ranks, and
 * with files of 4.1 MiB, for shared memory. */
static const struct {
    int resource;
    rlim_t needed;
    const char *text;
} mpi_limits[] = {{RLIMIT_NOFILE, 32, "open files (ulimit -n)"},
                  {RLIMIT_FSIZE, 5 << 20, "bytes of a file (ulimit -f)"},
                  {RLIMIT_MEMLOCK, 0, "bytes of locked memory (ulimit -l)"},
                  {RLIMIT_NPROC, 0, "processes and threads of the user (ulimit -u)"}};

/* Writes the limits that are set to `buffer`. */
static void limits_list(char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    for (size_t i = 0; i < sizeof mpi_limits / sizeof mpi_limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(mpi_limits[i].resource, &limit) != 0 ||
            limit.rlim_cur >= (rlim_t)INT64_MAX)
            continue;
        pt_text_add(&text, "%s%lld %s", text.length ? ", " : "",
                    (long long)limit.rlim_cur, mpi_limits[i].text);
    }
}

static pt_status_t limits_check(void)
{
    for (size_t i = 0; i < sizeof mpi_limits / sizeof mpi_limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(mpi_limits[i].resource, &limit) == 0 &&
            limit.rlim_cur < mpi_limits[i].needed)
            return PT_FAIL_COMMON(PT_CONFIG,
                                  "MPI cannot start with %lld %s: it needs %lld; raise "
                                  "the limit (Slurm copies it from the shell that "
                                  "submitted the job: sbatch --propagate=NONE)",
                                  (long long)limit.rlim_cur, mpi_limits[i].text,
                                  (long long)mpi_limits[i].needed);
    }
    return PT_OK;
}

static void limits_explain(void)
{
    char text[256];
    limits_list(text, sizeof text);
    if (mpi_is_starting && text[0])
        pt_log_all(
            PT_LOG_ERROR,
            "MPI did not start; its own message is above. A limit may be too low: %s",
            text);
}

pt_status_t limits_before_mpi(void)
{
    pt_status_t status = limits_check();
    if (status == PT_OK)
        status = pt_process_memory_check(FOR_MPI, "MPI and BLAS");
    if (status == PT_OK)
        status = pt_process_threads_check(THREADS_OF_MPI, "");
    if (pt_transport_launched_rank_on_host() != 0)
        pt_error_clear(); /* the first rank of the host reports it */
    if (status == PT_OK)
        mpi_is_starting = atexit(limits_explain) == 0;
    return status;
}

void limits_after_mpi(void)
{
    mpi_is_starting = false;
}
