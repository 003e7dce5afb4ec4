/* TEST np=3,4 backend=cpu,shadow timeout=120 */
/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is stopped and goes on with other numbers of ranks, 2, 3, 1, takes every
 * sample of an epoch once, in the steps in which it would take them on one rank, and
 * gives its losses. */
#include "regression/train/train_test.h"

enum { STEPS = 9, BATCH = 7, SAMPLES = 25, SEQUENCE = 16 };

#define MODEL                                                                          \
    TT_LLAMA "train.global_batch=7 train.micro_batch=2 train.precision=fp64 "          \
             "train.steps=9 train.lr=0.01 data.split=1,0 "

static int taken[STEPS * BATCH]; /* rank 0: how often each id was taken */
static int wrong;                /* ids of another step, on this rank */

/* Counts the ids that the device was given for the step just done. */
static void count_ids(pt_trainer_t *t, int64_t step)
{
    int64_t id[2 * SEQUENCE];
    uint8_t mask[2 * SEQUENCE];
    int mine[STEPS * BATCH] = {0}, all[STEPS * BATCH];

    for (int64_t m = 0; m < pt_loader_micro_batches(&t->loading); m++) {
        pt_batch_view_t view = pt_loader_view(t->loader, m);
        pt_tensor_t ids = pt_tensor_1d(id, PT_I64, PT_MEMORY_HOST, 2 * SEQUENCE);
        pt_tensor_t masks = pt_tensor_1d(mask, PT_U8, PT_MEMORY_HOST, 2 * SEQUENCE);

        MUST(pt_device_copy(t->session.device, t->session.stream, &ids, &view.sample));
        MUST(pt_device_copy(t->session.device, t->session.stream, &masks, &view.mask));
        MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
        for (int64_t b = 0; b < 2; b++) {
            int64_t taken_id = id[b * SEQUENCE];
            bool asked = taken_id == pt_loader_id(&t->loading, step, m, b);

            wrong += !asked || (mask[b * SEQUENCE] == 1) != (taken_id >= 0);
            if (taken_id < 0)
                continue;
            wrong += taken_id / BATCH != step;
            mine[taken_id % (STEPS * BATCH)]++;
        }
    }
    MPI_Comm *comm = pt_comm_mpi(t->session.mesh->world);
    MPI_Allreduce(mine, all, STEPS * BATCH, MPI_INT, MPI_SUM, *comm);
    for (int i = 0; i < STEPS * BATCH && tt.rank == 0; i++)
        taken[i] += all[i];
}

/* Steps first … last - 1 on the first `ranks` processes, from `from` to the file
 * `to`. */
static void leg(const pt_config_t *config, int ranks, const char *from, const char *to,
                tt_record_t *record)
{
    MPI_Comm comm;
    pt_transport_t *transport;
    pt_trainer_t trainer;
    pt_checkpoint_reader_t *reader;
    uint64_t digest;
    double loss = 0;

    MPI_Comm_split(MPI_COMM_WORLD, tt.rank < ranks, tt.rank, &comm);
    if (tt.rank < ranks) {
        MUST(pt_transport_open_mpi(&comm, &transport));
        MUST(pt_trainer_create(config, transport, &trainer));
        if (from)
            MUST(pt_train_load(&trainer, from, &loss));
        for (int i = 0; i < 3; i++) {
            tt_steps(&trainer, 1, record);
            count_ids(&trainer, trainer.step - 1);
        }
        MUST(pt_train_save(&trainer, to, NULL, record->loss[record->steps - 1],
                           &digest));
        MUST(pt_checkpoint_open(trainer.session.mesh->world, to, &reader));
        wrong += pt_checkpoint_header(reader)->samples != BATCH * record->steps ||
                 pt_checkpoint_header(reader)->step != record->steps;
        pt_checkpoint_close(reader);
        pt_trainer_destroy(&trainer);
        pt_transport_close(transport);
    }
    MPI_Bcast(record, (int)sizeof *record, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Comm_free(&comm);
}

static void test_run(const char *shuffle)
{
    char more[64];
    tt_record_t record = {0}, alone;
    bool once = true, near = true;

    snprintf(more, sizeof more, "data.shuffle=%s", shuffle);
    pt_config_t *config = tt_config(MODEL, more);
    memset(taken, 0, sizeof taken);
    leg(config, 2, NULL, "two.h5", &record);
    leg(config, 3, "two.h5", "three.h5", &record);
    leg(config, 1, "three.h5", "one.h5", &record);
    for (int i = 0; i < STEPS * BATCH && tt.rank == 0; i++)
        once = once && taken[i] == 1;
    tap_all(wrong == 0, "shuffle=%s: each step takes its own samples; files say so",
            shuffle);
    tap_all(once, "shuffle=%s: no sample is left out or taken twice", shuffle);
    alone = tt_train(config, tt.serial, STEPS);
    for (int i = 0; i < STEPS; i++)
        near = near && fabs(record.loss[i] - alone.loss[i]) <= 1e-11 * alone.loss[i];
    tap_all(near, "shuffle=%s: losses of 2, 3 and 1 ranks are those of one", shuffle);
    pt_free(config);
}

/* Ids count the corpus through once an epoch. */
static void test_epochs(void)
{
    pt_config_t *config = tt_config(MODEL, "");
    pt_corpus_t *corpus;
    bool once = true, differ = false;

    MUST(pt_corpus_open(config, 256, true, &corpus));
    tap_all(pt_corpus_samples(corpus, PT_SPLIT_TRAIN) == SAMPLES, "%d samples", SAMPLES);
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[SAMPLES] = {0};

        for (int i = 0; i < SAMPLES; i++) {
            int64_t sample = pt_corpus_sample_of(corpus, epoch * SAMPLES + i);
            seen[sample]++;
            differ = differ || sample != pt_corpus_sample_of(corpus, i);
        }
        for (int i = 0; i < SAMPLES; i++)
            once = once && seen[i] == 1;
    }
    tap_all(once && differ,
            "every epoch takes each sample once, in an order of its own");
    pt_corpus_close(corpus);
    pt_free(config);
}

/* Of any layout: the replicas' ids of a step are its ids, each once. */
static void test_layouts(void)
{
    bool once = true;

    for (int replicas = 1; replicas <= 9; replicas++)
        for (int64_t micro = 1; micro <= 5; micro++)
            for (int64_t batch = 1; batch <= 20; batch += 3) {
                int seen[20] = {0}, others = 0;
                pt_loader_options_t o = {.global_batch = batch,
                                         .micro_batch = micro,
                                         .sequence = SEQUENCE,
                                         .replicas = replicas};

                for (; o.replica < replicas; o.replica++)
                    for (int64_t m = 0; m < pt_loader_micro_batches(&o); m++)
                        for (int64_t b = 0; b < micro; b++) {
                            int64_t id = pt_loader_id(&o, 4, m, b);

                            if (id >= 4 * batch && id < 5 * batch)
                                seen[id - 4 * batch]++;
                            else
                                others += id != -1;
                        }
                for (int i = 0; i < batch; i++)
                    once = once && seen[i] == 1 && others == 0;
            }
    tap_all(once, "ids of a step, for 1 to 9 replicas");
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", SAMPLES * SEQUENCE + 1);
    test_layouts();
    test_epochs();
    test_run("true");
    test_run("false");
    return tt_finish();
}
