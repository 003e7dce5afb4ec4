/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of training begin with: MPI, a corpus, configurations in one line,
 * runs and what came out of them. Runs of a test follow each other in one process; a
 * reference run of one rank is made by every rank for itself, on the serial
 * transport. */
#ifndef PT_REGRESSION_TRAIN_TEST_H
#define PT_REGRESSION_TRAIN_TEST_H

#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"
#include "penta/train/train.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <mpi.h>
#include <string.h>
#include <unistd.h>

enum { TT_STEPS = 16, TT_SETTINGS = 2048 };

static struct {
    pt_transport_t *transport; /* all ranks */
    pt_transport_t *serial;    /* this rank alone */
    const char *backend;
    int rank, size;
} tt;

/* A failed call of Penta ends the test: the others would wait. */
static void tt_must(pt_status_t status, const char *call, int line)
{
    if (status == PT_OK)
        return;
    fprintf(stderr, "# rank %d, line %d: %s: %s: %s\n", tt.rank, line, call,
            pt_status_name(status), pt_error_last()->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define MUST(call) tt_must((call), #call, __LINE__)

static int tt_sum(int value, void *context)
{
    int total = 0;

    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)context);
    return total;
}

static void tt_start(int *argc, char ***argv)
{
    static MPI_Comm world = MPI_COMM_WORLD;
    const char *backend = getenv("PENTA_TEST_BACKEND");

    MPI_Init(argc, argv);
    MPI_Comm_rank(world, &tt.rank);
    MPI_Comm_size(world, &tt.size);
    tt.backend = backend ? backend : "cpu";
    tap_mpi(tt.rank, tt_sum, &world);
    pt_log_set_rank(tt.rank, tt.size, "test");
    pt_log_set_level(PT_LOG_ERROR);
    MUST(pt_transport_open_mpi(&world, &tt.transport));
    MUST(pt_transport_open_serial(&tt.serial));
}

static int tt_finish(void)
{
    int status;

    pt_transport_close(tt.serial);
    pt_transport_close(tt.transport);
    status = tap_done();
    MPI_Finalize();
    return status;
}

/* ---- data and configurations ---- */

/* Words of letters that follow each other with a bias, lines as documents: learnable,
 * and no two parts alike. */
__attribute__((unused)) static void tt_write_corpus(const char *path, int64_t bytes)
{
    static const char letters[] = "etaoinshrdlu";
    FILE *file;
    uint64_t state = 1;

    if (tt.rank == 0) {
        file = fopen(path, "w");
        if (!file)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int64_t i = 0; i < bytes; i++) {
            uint64_t draw = pt_mix64(state + (uint64_t)i);
            int c = letters[(draw % 7 + (uint64_t)i * i % 6) % 12];
            c = draw >> 32 & 7 ? c : draw >> 40 & 7 ? ' ' : '\n';
            fputc(c, file);
        }
        fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

#define TT_BASE                                                                        \
    "data.path=corpus.txt model.layers=3 model.hidden=32 model.ffn=48 model.heads=4 "  \
    "model.kv_heads=2 model.head_dim=8 train.sequence=16 train.global_batch=8 "        \
    "train.micro_batch=2 train.steps=6 train.warmup=2 train.lr=0.01 "                  \
    "run.log_every=1000 run.eval_sequences=4 "
/* A Llama; a GPT-2 with dropout; everything else there is. */
#define TT_LLAMA TT_BASE
#define TT_GPT2                                                                        \
    TT_BASE "model.norm=layer model.activation=gelu model.positions=learned "          \
            "model.bias=all model.tied=yes model.kv_heads=4 model.max_positions=16 "   \
            "model.dropout=0.1 "
#define TT_QWEN                                                                        \
    TT_BASE "model.qk_norm=yes model.bias=qkv model.tied=yes model.kv_heads=1 "        \
            "model.rotary_fraction=0.5 data.document_mask=true data.separator=\\n "

static pt_status_t tt_set_all(pt_config_t *config, const char *settings)
{
    char text[TT_SETTINGS], *rest = text;

    PT_REQUIRE(strlen(settings) < sizeof text);
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(text, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        PT_REQUIRE(equals);
        *equals = '\0';
        PT_TRY(pt_config_set(config, word, equals + 1, "test"));
    }
    return PT_OK;
}

/* Caller frees. Settings are "section.key=value" with one space between; later ones
 * win. */
static pt_config_t *tt_config(const char *base, const char *more)
{
    pt_config_t *config;

    MUST(PT_NEW("test configuration", 1, &config));
    pt_config_defaults(config);
    MUST(pt_config_set(config, "run.device", tt.backend, "test"));
    if (getenv("PENTA_TEST_ISA"))
        MUST(pt_config_set(config, "run.isa", getenv("PENTA_TEST_ISA"), "test"));
    MUST(tt_set_all(config, base));
    MUST(tt_set_all(config, more));
    MUST(pt_config_finish(config));
    return config;
}

/* ---- runs ---- */

typedef struct tt_record {
    int steps;
    double loss[TT_STEPS], norm[TT_STEPS];
    int64_t valid[TT_STEPS];
    uint64_t digest;
} tt_record_t;

/* Steps `first` … of an open trainer, into the record. */
__attribute__((unused)) static void tt_steps(pt_trainer_t *trainer, int steps,
                                             tt_record_t *record)
{
    for (int i = 0; i < steps; i++) {
        pt_step_result_t step;
        int at = record->steps++;

        MUST(pt_train_step(trainer, NULL, NULL, &step));
        record->loss[at] = step.loss;
        record->norm[at] = step.grad_norm;
        record->valid[at] = step.valid_tokens;
    }
    MUST(pt_state_digest(&trainer->state, &record->digest));
}

/* A trainer's whole life. */
__attribute__((unused)) static tt_record_t tt_train(const pt_config_t *config,
                                                    pt_transport_t *transport, int steps)
{
    pt_trainer_t trainer;
    tt_record_t record = {0};

    MUST(pt_trainer_create(config, transport, &trainer));
    tt_steps(&trainer, steps, &record);
    pt_trainer_destroy(&trainer);
    return record;
}

/* pt_train_run with its stdout thrown away. */
__attribute__((unused)) static pt_status_t tt_run(const pt_config_t *config,
                                                  pt_transport_t *transport,
                                                  pt_train_result_t *result)
{
    int out, nowhere = open("/dev/null", O_WRONLY);
    pt_status_t status;

    fflush(stdout);
    out = dup(STDOUT_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    status = pt_train_run(config, transport, result);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    close(nowhere);
    return status;
}

/* Rank 0: metrics.jsonl of a run directory. False unless it holds the steps 1 … n, each
 * once, in order. */
__attribute__((unused)) static bool tt_metrics(const char *directory,
                                               tt_record_t *record)
{
    char path[PT_CONFIG_TEXT + 16], line[4096];
    FILE *file;
    bool ok = true;

    record->steps = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        int at = record->steps;

        if (!json_object_get(object, "loss")) { /* a validation */
            json_decref(object);
            continue;
        }
        record->steps++;
        ok = ok && at < TT_STEPS &&
             json_integer_value(json_object_get(object, "step")) == at + 1;
        if (ok) {
            record->loss[at] = json_real_value(json_object_get(object, "loss"));
            record->norm[at] = json_real_value(json_object_get(object, "grad_norm"));
        }
        json_decref(object);
    }
    if (file)
        fclose(file);
    return ok && record->steps > 0;
}

__attribute__((unused)) static bool tt_same_steps(const tt_record_t *a,
                                                  const tt_record_t *b)
{
    size_t bytes = (size_t)a->steps * sizeof a->loss[0];

    return a->steps == b->steps && memcmp(a->loss, b->loss, bytes) == 0 &&
           memcmp(a->norm, b->norm, bytes) == 0;
}

__attribute__((unused)) static bool tt_same(const tt_record_t *a, const tt_record_t *b)
{
    return tt_same_steps(a, b) && a->digest == b->digest;
}

/* ---- tensors ---- */

/* A parameter's weights as the optimizer has them (masters where there are), or its
 * gradient. */
__attribute__((unused)) static pt_tensor_t tt_tensor(const pt_trainer_t *t, int param,
                                                     bool gradient)
{
    pt_tensor_t x = pt_units_local_shape(t->session.units, param);
    int bucket = pt_units_bucket_of(t->session.units, param);
    pt_tensor_t flat = gradient
                           ? pt_bucket_grads(t->session.units, bucket)
                           : pt_optim_state(t->session.optim, PT_STATE_WEIGHT, bucket);

    x.dtype = flat.dtype;
    x.data = pt_tensor_slice(flat, 0, pt_units_offset(t->session.units, param), 1).data;
    return x;
}

/* All weights or gradients of an open trainer, as doubles, one parameter after the
 * other; caller frees. Gradients: those of the last step, without the loss scale
 * `t->scale`. */
__attribute__((unused)) static double *tt_values(const pt_trainer_t *t, bool gradients,
                                                 int64_t *count)
{
    int64_t at = 0;
    double *out;

    *count = pt_param_table_elements(&t->session.table);
    MUST(PT_NEW("values", *count, &out));
    for (int p = 0; p < t->session.table.count; p++) {
        pt_tensor_t x = tt_tensor(t, p, gradients);
        int64_t n = pt_tensor_count(&x);
        pt_tensor_t host = x;

        host.data = out + at; /* 8 bytes an element hold any type */
        host.memory = PT_MEMORY_HOST;
        MUST(pt_device_copy(t->session.device, t->session.stream, &host, &x));
        MUST(t->session.device->ops->stream_sync(t->session.device, t->session.stream));
        for (int64_t i = n - 1; i >= 0; i--)
            out[at + i] = pt_float_get(x.dtype, out + at, i);
        for (int64_t i = 0; i < n && gradients; i++)
            out[at + i] /= t->scale.value;
        at += n;
    }
    return out;
}

__attribute__((unused)) static double tt_rms(const double *x, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)count);
}

/* Largest over tensors of max|a-b| / max(max|b|, floor). */
__attribute__((unused)) static double tt_error(const pt_param_table_t *table,
                                               const double *a, const double *b,
                                               double floor)
{
    double worst = 0;
    int64_t at = 0;

    for (int p = 0; p < table->count; p++) {
        const pt_param_t *param = &table->params[p];
        int64_t count = param->shape[0] * (param->ndim > 1 ? param->shape[1] : 1);
        double apart = 0, most = floor;

        for (int64_t i = at; i < at + count; i++) {
            apart = fmax(apart, isnan(a[i]) ? INFINITY : fabs(a[i] - b[i]));
            most = fmax(most, fabs(b[i]));
        }
        at += count;
        worst = fmax(worst, apart > 0 ? apart / most : 0);
    }
    return worst;
}

__attribute__((unused)) static double tt_max(double value)
{
    double most = value;

    MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

#endif
