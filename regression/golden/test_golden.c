/* TEST np=1 backend=cpu,shadow timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch and transformers computed (regression/golden/README.md), to the
 * bounds of the reproducibility contract R3, under every choice of recompute, split
 * and micro-batch. */
#include "regression/golden/golden.h"

/* Largest error of each kind, over all runs of a file. */
typedef struct errors {
    double loss, logits, gradient, norm, weight;
    char worst_gradient[NAME_SIZE], worst_weight[NAME_SIZE];
} errors_t;

/* By the measure of R3; NaN counts as infinite. */
static double error_of(const double *mine, const double *theirs, int64_t count,
                       double floor)
{
    double worst = 0, largest = floor;

    for (int64_t i = 0; i < count; i++) {
        double off = fabs(mine[i] - theirs[i]);

        if (!(off <= worst))
            worst = isnan(off) ? INFINITY : off;
        largest = fmax(largest, fabs(theirs[i]));
    }
    return worst / largest;
}

/* Worst error of the parts of all parameters; `group` says what of them. */
static pt_status_t compare_params(const golden_t *golden, rig_t *rig, const char *group,
                                  double *worst, char *worst_name)
{
    bool gradients = strcmp(group, "grads") == 0;
    double floor = gradients ? golden->gradient_floor : golden->config.train.lr;

    for (int p = 0; p < rig->session.table.count; p++) {
        const pt_param_t *param = &rig->session.table.params[p];
        pt_tensor_t x = gradients ? pt_units_grad(rig->session.units, p)
                                  : pt_units_weight(rig->session.units, p);
        int64_t cols = param->ndim == 2 ? param->shape[1] : 1,
                count = pt_tensor_count(&x);
        double mine[count], theirs[count];

        PT_TRY(read_param(golden, rig, group, p, theirs));
        PT_TRY(rig_read(rig, x, mine));
        for (int i = 0; i < param->parts; i++) {
            const pt_part_t *part = &param->part[i];
            int64_t first = part->first_row * cols;
            double error =
                error_of(mine + first, theirs + first, part->shape[0] * cols, floor);

            if (error > *worst) {
                *worst = error;
                snprintf(worst_name, NAME_SIZE, "%s", part->name);
            }
        }
    }
    return PT_OK;
}

/* ---- a run ---- */

static pt_status_t compare_logits(const golden_t *golden, rig_t *rig, errors_t *errors)
{
    int64_t count = ROWS * golden->arch.vocab;
    double mine[count];

    PT_TRY(read_logits(golden, rig, mine));
    errors->logits = fmax(errors->logits, error_of(mine, golden->logits, count, 0));
    return PT_OK;
}

static pt_status_t train(const golden_t *golden, rig_t *rig, errors_t *errors)
{
    PT_TRY(load_weights(golden, rig));
    for (int s = 0; s < STEPS; s++) {
        rig_data_t data = data_of(golden, s);
        double loss = 0, norm = 0;

        PT_TRY(rig_gradients(rig, &data, &loss));
        if (s == 0) {
            PT_TRY(compare_params(golden, rig, "grads", &errors->gradient,
                                  errors->worst_gradient));
            PT_TRY(compare_logits(golden, rig, errors));
        }
        PT_TRY(rig_update(rig, s + 1, &norm));
        errors->loss = fmax(errors->loss, error_of(&loss, &golden->losses[s], 1, 0));
        errors->norm = fmax(errors->norm, error_of(&norm, &golden->norms[s], 1, 0));
    }
    return compare_params(golden, rig, "after", &errors->weight, errors->worst_weight);
}

static pt_status_t run_choice(rig_world_t *world, const golden_t *golden,
                              const rig_choice_t *choice, errors_t *errors)
{
    rig_t rig = {.arch = golden->arch, .sequences = SEQUENCES, .length = LENGTH};
    pt_status_t status = rig_create(&rig, world, &golden->config, choice);

    if (status == PT_OK)
        status = train(golden, &rig, errors);
    rig_destroy(&rig);
    return status;
}

static pt_status_t run_file(rig_world_t *world, golden_t *golden, errors_t *errors)
{
    static const int every[] = {0, -1, 1, 2};

    PT_TRY(read_config(golden, NULL));
    PT_TRY(read_data(golden));
    for (int64_t micro_batch = 1; micro_batch <= SEQUENCES; micro_batch *= 2)
        for (int e = 0; e < 4; e++)
            for (int split = 0; split < 2; split++) {
                rig_choice_t choice = {.recompute_every = every[e],
                                       .split = split,
                                       .gpipe = e % 2,
                                       .micro_batch = micro_batch};

                PT_TRY(run_choice(world, golden, &choice, errors));
            }
    return PT_OK;
}

static void test_file(rig_world_t *world, const char *name)
{
    golden_t golden = {.file = open_golden(name)};
    errors_t e = {0};
    pt_status_t status;

    if (!tap_ok(golden.file >= 0, "%s: opens", name))
        return;
    status = run_file(world, &golden, &e);
    tap_ok(status == PT_OK, "%s: runs: %s", name,
           status == PT_OK ? "yes" : pt_error_last()->text);
    if (status == PT_OK) {
        tap_ok(e.loss <= golden.bound, "%s: losses %.1e", name, e.loss);
        tap_ok(e.logits <= golden.bound, "%s: logits %.1e", name, e.logits);
        tap_ok(e.gradient <= golden.bound, "%s: gradients %.1e, %s", name, e.gradient,
               e.worst_gradient);
        tap_ok(e.norm <= golden.bound, "%s: norms %.1e", name, e.norm);
        tap_ok(e.weight <= golden.weight_bound,
               "%s: weights after three steps %.1e, %s", name, e.weight, e.worst_weight);
    } else
        pt_error_print();
    pt_error_clear();
    pt_free(golden.logits);
    H5Fclose(golden.file);
}

static void test_all(rig_world_t *world)
{
    static const char *const names[] = {
        "gpt2-fp64",       "gpt2-fp32",       "llama-fp64",      "llama-fp32",
        "llama-docs-fp64", "llama-gqa2-fp64", "llama-gqa2-fp32", "qwen2-fp64",
        "qwen2-fp32",      "qwen3-fp64",      "qwen3-fp32"};

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        test_file(world, names[i]);
}

int main(int argc, char **argv)
{
    return rig_main(&argc, &argv, test_all);
}
