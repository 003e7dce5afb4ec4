/* Dispatch of subcommands; the only place that knows the process: MPI, exit codes, --help. */
#include "penta/alloc.h"
#include "penta/cmd.h"
#include "penta/fault.h"
#include "penta/log.h"
#include "pt_version.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pt_status_t print_text(pt_status_t (*make)(char **))
{
    char *text = NULL;
    PT_TRY(make(&text));
    fputs(text, stdout);
    pt_free(text);
    return PT_OK;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* What needs no command; false: not one of these. */
static bool is_answered(int argc, char **argv, pt_status_t *status)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    *status = argc > 1 ? PT_OK : PT_CONFIG;
    if (is_help(word) || strcmp(word, "help") == 0)
        pt_command_help(NULL);
    else if (strcmp(word, "--version") == 0)
        printf("penta %s (%s)\n", PT_VERSION, PT_GIT_REVISION);
    else if (strcmp(word, "--man") == 0)
        *status = print_text(pt_config_man);
    else if (strcmp(word, "--template") == 0)
        *status = print_text(pt_config_template);
    else
        return false;
    return true;
}

/* What was to be printed is all that these commands do. */
static pt_status_t check_output(pt_status_t status)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (status == PT_OK && lost)
        return PT_FAIL_COMMON(PT_IO, "standard output cannot be written");
    return status;
}

static void tell_log(int rank, int size)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    pt_log_set_rank(rank, size, host);
}

/* Before MPI is there its launcher tells who speaks, so that one message comes of one mistake. */
static int launched_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        int64_t rank;
        if (text && pt_text_int(text, &rank) && rank >= 0 && rank < INT32_MAX)
            return (int)rank;
    }
    return 0;
}

/* A failure that other ranks do not know of ends them too; no MPI call but MPI_Abort comes after it. */
static int finish(pt_status_t status, pt_wire_t *wire)
{
    if (status != PT_OK && status != PT_STOPPED)
        pt_error_print();
    fflush(stdout);
    if (pt_error_is_fatal() && wire)
        pt_wire_abort(wire, pt_status_exit_code(status));
    pt_wire_close(wire);
    return pt_status_exit_code(status);
}

static int run_parallel(const pt_command_t *command, int argc, char **argv)
{
    int rank, size, provided;
    pt_wire_t *wire = NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    tell_log(rank, size);
    pt_status_t status = pt_wire_open_mpi(&world, &wire);
    if (status == PT_OK)
        status = command->run(argc - 1, argv + 1, wire);
    int code = finish(status, wire);
    if (wire == NULL)
        MPI_Abort(world, code); /* other ranks may have theirs */
    MPI_Finalize();
    return code;
}

int main(int argc, char **argv)
{
    pt_status_t status;
    pt_wire_t *wire = NULL;
    if (is_answered(argc, argv, &status))
        return finish(check_output(status), NULL);
    tell_log(launched_rank(), 1);
    const pt_command_t *command = pt_command_find(argv[1]);
    if (command == NULL || (status = pt_fault_init()) != PT_OK)
        return finish(PT_CONFIG, NULL);
    for (int i = 2; i < argc; i++) {
        if (!is_help(argv[i]))
            continue;
        pt_command_help(command);
        return finish(check_output(PT_OK), NULL);
    }
    if (command->parallel)
        return run_parallel(command, argc, argv);
    status = pt_wire_open_serial(&wire);
    if (status == PT_OK)
        status = check_output(command->run(argc - 1, argv + 1, wire));
    return finish(status, wire);
}
