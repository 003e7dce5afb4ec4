/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a subcommand. Only this file deals with the process: MPI_Init, signals, exit
 * codes. */
#include "penta/cmd/cmd.h"
#include "penta/comm/watch.h"
#include "penta/io/checkpoint.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "penta/base/text.h"
#include "penta/train/train.h"
#include "src/limits.h"

#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void main_tell_log(int rank, int size)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    pt_log_set_rank(rank, size, host);
}

/* Ends the process. A failure that other ranks do not know aborts them; MPI_Abort is
 * then the only MPI call. */
static int main_finish(pt_status_t status, pt_transport_t *transport)
{
    if (status != PT_OK && status != PT_STOPPED)
        pt_error_print();
    fflush(stdout);
    if (pt_error_is_fatal() && transport)
        pt_transport_abort(transport, pt_status_exit_code(status));
    pt_transport_close(transport);
    return pt_status_exit_code(status);
}

/* ---- signals, and the beginning -------------------------------------------------- */

static bool hangup_is_ignored; /* for example by nohup */

/* Runs before the constructors of the libraries, because that of UCX takes SIGHUP.
 * Signals are stop requests for a run from its first moment; they end other
 * commands. */
static void main_enter(int argc, char **argv, char **environment)
{
    struct sigaction hangup;
    (void)environment;
    if (!limits_take())
        _exit(pt_status_exit_code(PT_CONFIG));
    if (argc > 1 && strcmp(argv[1], "train") == 0) {
        limits_take_cpu_time();
        pt_stop_hold();
    }
    hangup_is_ignored =
        sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = main_enter;

static int launcher = -1; /* file descriptor of Hydra's proxy */

static void main_find_launcher(void)
{
    const char *text = getenv("PMI_FD");
    int64_t fd;
    if (text && pt_text_int(text, &fd) && fd >= 0 && fd < INT_MAX)
        launcher = (int)fd;
}

/* Called from a signal handler. Hydra's mpiexec takes the exit code from this line,
 * which MPI_Abort also sends; otherwise it would return 9, the signal that kills the
 * ranks. */
static void main_leave(int exit_code)
{
    char line[64];
    int length = snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", exit_code);
    if (launcher >= 0 && write(launcher, line, (size_t)length) == length)
        (void)sleep(1); /* until the launcher kills this process */
    _exit(exit_code);
}

static void main_hear_signals(const char *command)
{
    if (strcmp(command, "train") == 0)
        pt_stop_install(main_leave, hangup_is_ignored);
}

static volatile sig_atomic_t is_finalizing;

/* Called by the watchdog, while this rank may be stuck in MPI. */
static void main_abort_all(int exit_code)
{
    if (is_finalizing) /* MPI_Abort has no effect in MPICH now */
        main_leave(exit_code);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static int main_run_parallel(const pt_command_t *command, int argc, char **argv)
{
    int rank, size, provided;
    pt_transport_t *transport = NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    pt_status_t status = limits_before_mpi();
    if (status != PT_OK)
        return main_finish(status, NULL);
    pt_checkpoint_before_mpi();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    main_hear_signals(command->name); /* again, because MPICH takes SIGUSR1 */
    limits_after_mpi();
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    status = pt_transport_check_launch(size);
    if (status != PT_OK) {
        /* The log still has the rank of the launcher, so that only one rank prints. */
        int code = main_finish(status, NULL);
        MPI_Finalize();
        return code;
    }
    main_tell_log(rank, size);
    pt_fault_announce();
    status = pt_transport_open_mpi(&world, &transport);
    if (status == PT_OK)
        status = pt_watch_open(transport, main_abort_all);
    if (status == PT_OK)
        status = command->run(argc - 1, argv + 1, transport);
    int code = main_finish(status, transport);
    if (transport == NULL)
        MPI_Abort(world, code); /* on other ranks it may have succeeded */
    pt_watch_finish();
    is_finalizing = 1;
    MPI_Finalize();
    pt_watch_close();
    return code;
}

int main(int argc, char **argv)
{
    pt_status_t status;
    pt_transport_t *transport = NULL;
    signal(SIGHUP, hangup_is_ignored ? SIG_IGN : SIG_DFL);
    /* Otherwise /proc/self/exe makes it `exe`, also in the log of the OOM killer. */
    prctl(PR_SET_NAME, "penta");
    if (pt_cmd_is_answered(argc, argv, &status))
        return main_finish(status, NULL);
    main_tell_log(pt_transport_launched_rank(), 1); /* one message for one mistake */
    main_find_launcher();
    main_hear_signals(argv[1]);
    const pt_command_t *command = pt_command_find(argv[1]);
    if (command == NULL || pt_fault_init() != PT_OK)
        return main_finish(PT_CONFIG, NULL);
    if (pt_cmd_is_helped(command, argc, argv, &status))
        return main_finish(status, NULL);
    if (command->parallel)
        return main_run_parallel(command, argc, argv);
    pt_fault_announce();
    status = pt_transport_open_serial(&transport);
    if (status == PT_OK)
        status = pt_cmd_check_output(command->run(argc - 1, argv + 1, transport));
    return main_finish(status, transport);
}
