/* TEST np=1 backend=cpu,shadow timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 and fp16 against the fp64 golden files: not farther from them than twice what
 * PyTorch is, by the figures in narrow.csv (regression/golden/README.md), under choices
 * of recompute, split and micro-batch. */
#include "regression/golden/golden.h"

/* Of the first loss, relative; RMS over all elements, of logits and gradients relative
 * to the RMS of theirs, of weights to the learning rate. */
typedef struct figures {
    double loss, logits, gradient, weight;
} figures_t;

static figures_t larger(figures_t a, figures_t b)
{
    return (figures_t){fmax(a.loss, b.loss), fmax(a.logits, b.logits),
                       fmax(a.gradient, b.gradient), fmax(a.weight, b.weight)};
}

/* The larger of PyTorch's two ways; of the loss, one number that may be near by chance,
 * the largest of all models. False unless the file has both ways. */
static bool read_bound(const char *model, const char *precision, figures_t *out)
{
    const char *source = getenv("PENTA_SRCDIR");
    char path[4096], line[256], row_model[64], row_precision[64], way[64];
    figures_t row;
    int found = 0;

    snprintf(path, sizeof path, "%s/regression/golden/narrow.csv",
             source ? source : ".");
    FILE *file = fopen(path, "r");
    *out = (figures_t){0};
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63[^,],%63[^,],%63[^,],%lf,%lf,%lf,%lf", row_model,
                   row_precision, way, &row.loss, &row.logits, &row.gradient,
                   &row.weight) != 7 ||
            strcmp(row_precision, precision) != 0)
            continue;
        out->loss = fmax(out->loss, row.loss);
        if (strcmp(row_model, model) != 0)
            continue;
        *out = larger(*out, row);
        found++;
    }
    if (file)
        fclose(file);
    return found == 2;
}

/* RMS over all parameters of what the rig has less what the file has; NaN counts as
 * infinite. */
static pt_status_t rms_error(const golden_t *golden, rig_t *rig, const char *group,
                             double *out)
{
    bool gradients = strcmp(group, "grads") == 0;
    double squares = 0;
    int64_t all = 0;

    for (int p = 0; p < rig->session.table.count; p++) {
        pt_tensor_t x =
            gradients ? pt_units_grad(rig->session.units, p) : rig_master(rig, p);
        int64_t count = pt_tensor_count(&x);
        double mine[count], theirs[count], scale = gradients ? rig_scale(rig) : 1;

        PT_TRY(read_param(golden, rig, group, p, theirs));
        PT_TRY(rig_read(rig, x, mine));
        for (int64_t i = 0; i < count; i++)
            squares += pow(mine[i] / scale - theirs[i], 2);
        all += count;
    }
    *out = isnan(squares) ? INFINITY : sqrt(squares / (double)all);
    return PT_OK;
}

static pt_status_t logits_error(const golden_t *golden, rig_t *rig, double *out)
{
    double mine[ROWS * golden->arch.vocab], squares = 0, all = 0;

    PT_TRY(read_logits(golden, rig, mine));
    for (int64_t i = 0; i < ROWS * golden->arch.vocab; i++) {
        squares += pow(mine[i] - golden->logits[i], 2);
        all += pow(golden->logits[i], 2);
    }
    *out = isnan(squares) ? INFINITY : sqrt(squares / all);
    return PT_OK;
}

static pt_status_t train(const golden_t *golden, rig_t *rig, figures_t *out)
{
    *out = (figures_t){0};
    PT_TRY(load_weights(golden, rig));
    for (int s = 0; s < STEPS; s++) {
        rig_data_t data = data_of(golden, s);
        double loss = 0, norm = 0;

        PT_TRY(rig_gradients(rig, &data, &loss));
        if (s == 0) {
            PT_TRY(rms_error(golden, rig, "grads", &out->gradient));
            PT_TRY(logits_error(golden, rig, &out->logits));
            out->loss = fabs(loss / golden->losses[0] - 1);
        }
        PT_TRY(rig_update(rig, s + 1, &norm));
    }
    out->gradient /= golden->gradient_floor;
    PT_TRY(rms_error(golden, rig, "after", &out->weight));
    out->weight /= golden->config.train.lr;
    return PT_OK;
}

static pt_status_t run_choice(rig_world_t *world, const golden_t *golden,
                              const rig_choice_t *choice, figures_t *worst)
{
    bool fp16 = golden->arch.dtype == PT_F16;
    rig_t rig = {.arch = golden->arch,
                 .sequences = SEQUENCES,
                 .length = LENGTH,
                 .scale = fp16 ? 1024 : 1};
    figures_t figures = {0};
    pt_status_t status = rig_create(&rig, world, &golden->config, choice);

    if (status == PT_OK)
        status = train(golden, &rig, &figures);
    if (isnan(figures.loss))
        figures.loss = INFINITY;
    *worst = larger(*worst, figures);
    rig_destroy(&rig);
    return status;
}

static pt_status_t run_model(rig_world_t *world, golden_t *golden,
                             const char *precision, bool narrow_grads, figures_t *worst)
{
    static const int every[] = {0, -1, 2};

    PT_TRY(read_config(golden, precision));
    PT_TRY(read_data(golden));
    for (int64_t micro_batch = 1; micro_batch <= SEQUENCES; micro_batch *= 2)
        for (int e = 0; e < 3; e++) {
            rig_choice_t choice = {.recompute_every = every[e],
                                   .split = e % 2,
                                   .gpipe = e % 2,
                                   .narrow_grads = narrow_grads,
                                   .micro_batch = micro_batch};

            PT_TRY(run_choice(world, golden, &choice, worst));
        }
    return PT_OK;
}

static void test_model(rig_world_t *world, const char *model, const char *precision,
                       bool narrow_grads)
{
    char name[64];
    figures_t e = {0}, bound = {0};
    golden_t golden = {0};
    const char *grads = narrow_grads ? ", bf16 gradients" : "";

    snprintf(name, sizeof name, "%s-fp64", model);
    golden.file = open_golden(name);
    if (!tap_ok(golden.file >= 0 && read_bound(model, precision, &bound),
                "%s, %s: figures", model, precision))
        return;
    pt_status_t status = run_model(world, &golden, precision, narrow_grads, &e);
    tap_ok(status == PT_OK, "%s, %s: runs: %s", model, precision,
           status == PT_OK ? "yes" : pt_error_last()->text);
    tap_ok(e.loss <= 2 * bound.loss, "%s, %s%s: loss %.1e, PyTorch %.1e", model,
           precision, grads, e.loss, bound.loss);
    tap_ok(e.logits <= 2 * bound.logits, "%s, %s%s: logits %.1e, PyTorch %.1e", model,
           precision, grads, e.logits, bound.logits);
    tap_ok(e.gradient <= 2 * bound.gradient, "%s, %s%s: gradients %.1e, PyTorch %.1e",
           model, precision, grads, e.gradient, bound.gradient);
    tap_ok(e.weight <= 2 * bound.weight,
           "%s, %s%s: weights after three steps %.1e, PyTorch %.1e", model, precision,
           grads, e.weight, bound.weight);
    /* And far enough that it was computed in that precision at all. */
    tap_ok(e.gradient >= bound.gradient / 50, "%s, %s%s: not in another precision",
           model, precision, grads);
    pt_error_clear();
    pt_free(golden.logits);
    H5Fclose(golden.file);
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"gpt2", "llama", "llama-gqa2", "qwen2",
                                         "qwen3"};
    MPI_Comm comm = MPI_COMM_WORLD;
    rig_world_t world = {.transport = NULL};

    MPI_Init(&argc, &argv);
    if (tap_ok(pt_transport_open_mpi(&comm, &world.transport) == PT_OK &&
                   rig_open(&world) == PT_OK,
               "one replica on %s", getenv("PENTA_TEST_BACKEND"))) {
        for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
            test_model(&world, models[i], "bf16", false);
            test_model(&world, models[i], "bf16", true);
            test_model(&world, models[i], "fp16", false);
        }
        pt_machine_close(&world.machine);
        pt_transport_close(world.transport);
    }
    MPI_Finalize();
    return tap_done();
}
