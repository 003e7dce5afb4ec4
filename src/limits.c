#include "src/limits.h"

#include "penta/comm/comm.h"
#include "penta/ops/device.h"
#include "penta/base/log.h"
#include "penta/base/text.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

enum {
    FOR_MPI = 256 << 20, /* addresses, with those of the BLAS */
    THREADS_OF_MPI = 1
};

/* Batch systems hand on the limits of the login node. */
void limits_take(void)
{
    struct rlimit files, stack;
    const rlim_t enough = 8 << 20;

    signal(SIGXFSZ, SIG_IGN); /* what exceeds `ulimit -f` is a failed write, EFBIG */
    signal(SIGPIPE, SIG_IGN); /* the same for a pipe that nobody reads, EPIPE */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < enough) {
        stack.rlim_cur = stack.rlim_max < enough ? stack.rlim_max : enough;
        (void)setrlimit(RLIMIT_STACK, &stack);
    }
}

/* One of the few mutable globals: a library that gives up at its start ends the process. */
static bool mpi_is_starting;

/* MPICH over UCX needs about that much. */
static const struct {
    int resource;
    rlim_t needed;
    const char *text;
} mpi_limits[] = {{RLIMIT_NOFILE, 32, "open files (ulimit -n)"},
                  {RLIMIT_FSIZE, 5 << 20, "bytes of a file (-f)"},
                  {RLIMIT_MEMLOCK, 0, "bytes of locked memory (-l)"},
                  {RLIMIT_NPROC, 0, "processes and threads of the user (-u)"}};

/* Lists the limits that are set; is one of them low? */
static bool list_limits(char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    bool low = false;
    for (size_t i = 0; i < sizeof mpi_limits / sizeof mpi_limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(mpi_limits[i].resource, &limit) != 0 ||
            limit.rlim_cur >= (rlim_t)INT64_MAX)
            continue;
        low = low || limit.rlim_cur < mpi_limits[i].needed;
        pt_text_add(&text, "%s%lld %s", text.length ? ", " : "",
                    (long long)limit.rlim_cur, mpi_limits[i].text);
    }
    return low;
}

static void explain_limits(void)
{
    char text[256];
    (void)list_limits(text, sizeof text);
    if (mpi_is_starting && text[0])
        pt_log_all(PT_LOG_ERROR,
                   "MPI did not start, and says why above. It may have met a limit: %s",
                   text);
}

pt_status_t limits_before_mpi(void)
{
    char text[256];
    pt_status_t status = pt_process_memory_check(FOR_MPI, "MPI and BLAS");
    if (status == PT_OK)
        status = pt_process_threads_check(THREADS_OF_MPI, "");
    bool first = pt_wire_launched_rank_on_host() == 0;
    if (!first)
        pt_error_clear(); /* said by the first */
    if (status != PT_OK)
        return status;
    /* A launcher may end all ranks before one could explain. */
    if (list_limits(text, sizeof text) && first)
        pt_log_all(PT_LOG_WARN, "MPI may not start within the limits here: %s", text);
    mpi_is_starting = atexit(explain_limits) == 0;
    return PT_OK;
}

void limits_after_mpi(void)
{
    mpi_is_starting = false;
}
