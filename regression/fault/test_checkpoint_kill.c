/* TEST timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks killed while they save, at chosen places and at random moments: the newest
 * published file opens and holds what was written, and the next run saves over what is
 * left. */
#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"

#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 8, ROWS = 64, COLS = 1000, KEEP = 3 };

static pt_checkpoint_tensor_t tensors[TENSORS];

static void set_tensors(void)
{
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = (pt_checkpoint_tensor_t){
            .group = "model", .dtype = PT_F32, .ndim = 2, .shape = {ROWS, COLS}};
        snprintf(tensors[i].name, sizeof tensors[i].name, "w%d", i);
        tensors[i].id = pt_name_id(tensors[i].name);
    }
}

static float value(int64_t step, int i, int64_t k)
{
    return (float)(step * 7 + i) + (float)k / ROWS / COLS;
}

/* ---- the victims: one job of several ranks that saves for ever --------------------------------- */

static pt_status_t save(pt_comm_t *world, int64_t step)
{
    pt_checkpoint_header_t header = {.step = step, .precision = "fp32"};
    pt_checkpoint_writer_t *writer;
    pt_status_t status = PT_OK;
    int64_t rank = pt_comm_rank(world), size = pt_comm_size(world);
    pt_hyperslab_t slab = {{ROWS * rank / size}, {0, COLS, 1}, 0};
    static float data[ROWS * COLS];
    char path[64];

    slab.count[0] = ROWS * (rank + 1) / size - slab.start[0];
    PT_TRY(pt_checkpoint_create(world, pt_checkpoint_path("ck", step, path, sizeof path),
                                tensors, TENSORS, "", "", &writer));
    for (int i = 0; i < TENSORS && status == PT_OK; i++) {
        for (int64_t k = 0; k < slab.count[0] * COLS; k++)
            data[k] = value(step, i, slab.start[0] * COLS + k);
        status = pt_checkpoint_write(writer, i, &slab, data);
    }
    PT_TRY(pt_checkpoint_publish(writer, status, &header, PT_VERIFY_DIGEST));
    if (rank == 0)
        pt_checkpoint_retain("ck", step, KEEP, 0);
    return PT_OK;
}

static void write_pid(int rank)
{
    char name[32];
    FILE *file;

    snprintf(name, sizeof name, "pid.%d", rank);
    file = fopen(name, "w");
    if (file) {
        fprintf(file, "%ld\n", (long)getpid());
        fclose(file);
    }
}

static int run_victim(int argc, char **argv, int64_t first, int64_t last)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    pt_engine_options_t options = {.gpu_direct = PT_GPU_DIRECT_OFF};
    pt_where_t where = PT_WHERE_INIT;
    pt_status_t status = PT_OK;
    pt_engine_t *engine;
    pt_transport_t *transport;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    pt_log_set_rank(rank, size, "");
    pt_log_set_level(PT_LOG_ERROR);
    pt_log_set_where(&where);
    write_pid(rank);
    if (pt_fault_init() != PT_OK || pt_transport_open_mpi(&comm, &transport) != PT_OK ||
        pt_engine_create(transport, &options, &engine) != PT_OK)
        return 1;
    for (where.step = first; where.step <= last && status == PT_OK; where.step++)
        status = save(pt_engine_world(engine), where.step);
    pt_error_print();
    pt_engine_destroy(engine);
    pt_transport_close(transport);
    MPI_Finalize();
    return pt_status_exit_code(status);
}

/* ---- the judge --------------------------------------------------------------------------------- */

static pid_t start_job(const char *self, int ranks, int64_t first, int64_t last,
                       const char *fault)
{
    const char *mpiexec = getenv("MPIEXEC");
    char text[3][32];
    pid_t job = fork();

    if (job != 0)
        return job;
    snprintf(text[0], sizeof text[0], "%d", ranks);
    snprintf(text[1], sizeof text[1], "%lld", (long long)first);
    snprintf(text[2], sizeof text[2], "%lld", (long long)last);
    setenv("PENTA_FAULT", fault, 1);
    execlp(mpiexec ? mpiexec : "mpiexec", "mpiexec", "-n", text[0], self, text[1],
           text[2], (char *)NULL);
    _exit(127);
}

static int end_job(pid_t job)
{
    int status = -1;

    waitpid(job, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_right(pt_checkpoint_reader_t *reader, int64_t step)
{
    static float data[ROWS * COLS];
    int64_t wrong = 0;
    char name[16];

    for (int i = 0; i < TENSORS; i++) {
        pt_hyperslab_t slab = pt_hyperslab_whole(tensors[i].ndim, tensors[i].shape);
        snprintf(name, sizeof name, "w%d", i);
        int t = pt_checkpoint_find_tensor(reader, "model", name);
        if (t < 0 || pt_checkpoint_read(reader, t, PT_F32, &slab, true, data) != PT_OK)
            return false;
        for (int64_t k = 0; k < ROWS * COLS; k++)
            wrong += data[k] != value(step, i, k);
    }
    return wrong == 0 && pt_checkpoint_header(reader)->step == step &&
           pt_checkpoint_verify_read(reader) == PT_OK;
}

/* Every published file is whole. Returns the newest step, -1 when a file is not
 * right. */
static int64_t judge(pt_comm_t *world)
{
    pt_checkpoint_entry_t *list = NULL;
    pt_checkpoint_reader_t *reader;
    int count = 0;
    int64_t newest = 0;

    if (pt_checkpoint_list("ck", &list, &count) != PT_OK)
        return -1;
    for (int i = count - 1; i >= 0 && newest >= 0; i--) {
        newest = -1;
        if (pt_checkpoint_open(world, list[i].path, &reader) != PT_OK)
            break;
        newest = is_right(reader, list[i].step) ? list[i].step : -1;
        pt_checkpoint_close(reader);
    }
    if (newest < 0)
        tap_note("%s", pt_error_last()->text);
    pt_error_clear();
    pt_free(list);
    return newest;
}

static void test_places(pt_comm_t *world, const char *self)
{
    static const struct {
        const char *site;
        int rank, newest;
    } cases[] = {{"checkpoint.create", 0, 2}, {"checkpoint.create", 1, 2},
                 {"checkpoint.write", 0, 2},  {"checkpoint.write", 2, 2},
                 {"checkpoint.close", 0, 2},  {"checkpoint.close", 1, 2},
                 {"checkpoint.rename", 0, 2}, {"checkpoint.renamed", 0, 3}};
    char fault[128];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)!system("rm -rf ck && mkdir ck");
        snprintf(fault, sizeof fault, "%s:%d:3:kill", cases[i].site, cases[i].rank);
        int code = end_job(start_job(self, 3, 1, 5, fault));
        int64_t newest = judge(world);
        tap_ok(code != 0 && newest == cases[i].newest, "%s: the newest is %lld", fault,
               (long long)newest);
        code = end_job(start_job(self, 2, newest + 1, newest + 1, ""));
        tap_ok(code == 0 && judge(world) == newest + 1, "... and the next run goes on");
    }
}

static pid_t read_pid(int rank)
{
    char name[32];
    long pid = 0;

    snprintf(name, sizeof name, "pid.%d", rank);
    FILE *file = fopen(name, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &pid) != 1)
        pid = 0;
    fclose(file);
    return (pid_t)pid;
}

/* Has this job published anything yet? */
static bool has_saved(int64_t first)
{
    pt_checkpoint_entry_t *list = NULL;
    int count = 0;
    bool saved = pt_checkpoint_list("ck", &list, &count) == PT_OK && count > 0 &&
                 list[0].step >= first;

    pt_free(list);
    return saved;
}

/* Every second job is given the time to publish something first. */
static void wait_for_job(int round, int victim, int64_t first)
{
    double deadline = pt_clock_sec() + 20;

    while ((read_pid(victim) == 0 || (round % 2 == 0 && !has_saved(first))) &&
           pt_clock_sec() < deadline)
        usleep(2000);
    usleep((useconds_t)(pt_mix64((uint64_t)round) % 250000));
}

static void test_moments(pt_comm_t *world, const char *self, int rounds)
{
    int64_t newest = 0, first = 1;
    int wrong = 0, saved = 0;

    (void)!system("rm -rf ck && mkdir ck");
    for (int round = 0; round < rounds; round++) {
        int ranks = 2 + round % 3, victim = round % ranks;
        char name[32];
        for (int r = 0; r < ranks; r++) {
            snprintf(name, sizeof name, "pid.%d", r);
            unlink(name);
        }
        pid_t job = start_job(self, ranks, first, 1000000, "");
        wait_for_job(round, victim, first);
        if (read_pid(victim) > 0)
            kill(read_pid(victim), SIGKILL);
        else
            kill(job, SIGKILL);
        wrong += end_job(job) == 0;
        int64_t found = judge(world);
        wrong += found < newest;
        saved += found > newest;
        newest = found;
        first = newest + 1;
    }
    tap_ok(wrong == 0 && saved >= rounds / 2,
           "%d jobs killed at random: %d had saved, newest %lld, %d wrong", rounds,
           saved, (long long)newest, wrong);
}

int main(int argc, char **argv)
{
    const char *level = getenv("PENTA_TEST_LEVEL");
    pt_engine_options_t options = {.gpu_direct = PT_GPU_DIRECT_OFF};
    pt_engine_t *engine;
    pt_transport_t *transport;

    set_tensors();
    if (argc == 3)
        return run_victim(argc, argv, strtoll(argv[1], NULL, 10),
                          strtoll(argv[2], NULL, 10));
    if (pt_transport_open_serial(&transport) != PT_OK ||
        pt_engine_create(transport, &options, &engine) != PT_OK)
        return 1;
    test_places(pt_engine_world(engine), argv[0]);
    test_moments(pt_engine_world(engine), argv[0],
                 level && strcmp(level, "long") == 0 ? 200 : 24);
    pt_engine_destroy(engine);
    pt_transport_close(transport);
    return tap_done();
}
