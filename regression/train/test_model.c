/* TEST np=1 backend=cpu,shadow timeout=300 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The model's gradient against finite differences of its loss; and what must not
 * change a bit of it: recompute, split of B and W, schedule, cut into chunks, merged
 * units, evaluations in between. */
#include "regression/train/rig_step.h"
#include "penta/base/normal.h"

enum { SEQUENCES = 4, LENGTH = 20, ROWS = SEQUENCES * LENGTH, LAYERS = 5, VOCAB = 70 };

/* Every switch of the family is in one of the two. */
static const pt_arch_t llama = {
    RIG_LLAMA,       .layers = LAYERS,       .vocab = VOCAB, .max_positions = LENGTH,
    .qk_norm = true, .rotary_fraction = 0.5, .dropout = 0.1, .dtype = PT_F64};
static const pt_arch_t gpt2 = {RIG_GPT2,       .layers = LAYERS,
                               .vocab = VOCAB, .max_positions = LENGTH + 2,
                               .dropout = 0.1, .dtype = PT_F64};

static int32_t token[ROWS], label[ROWS], document[ROWS];
static uint8_t mask[ROWS];

static void make_data(int64_t vocab)
{
    uint64_t state = 1;

    for (int i = 0; i < ROWS; i++) {
        token[i] = (int32_t)(rig_draw(&state) % (uint64_t)vocab);
        label[i] = (int32_t)(rig_draw(&state) % (uint64_t)vocab);
        document[i] = i % LENGTH > 6;
        mask[i] = rig_draw(&state) % 4 != 0;
    }
}

static rig_data_t data_of(int64_t step)
{
    return (rig_data_t){.token = token,
                        .label = label,
                        .document = document,
                        .mask = mask,
                        .step = step};
}

static pt_status_t start(rig_t *rig, rig_world_t *world, const pt_arch_t *arch,
                         const rig_choice_t *choice)
{
    *rig = (rig_t){.arch = *arch, .sequences = SEQUENCES, .length = LENGTH};
    PT_TRY(rig_create(rig, world, NULL, choice));
    return rig_init(rig, 11);
}

/* All gradients as doubles, one after the other; *out: caller frees with pt_free. */
static pt_status_t all_gradients(rig_t *rig, int64_t *count, double **out)
{
    int64_t at = 0;

    *count = pt_param_table_elements(&rig->session.table);
    PT_TRY(PT_NEW("gradients", (size_t)*count, out));
    for (int p = 0; p < rig->session.table.count; p++) {
        pt_tensor_t grad = pt_units_grad(rig->session.units, p);

        PT_TRY(rig_read(rig, grad, *out + at));
        at += pt_tensor_count(&grad);
    }
    return PT_OK;
}

/* ---- bits ---- */

typedef struct outcome {
    double loss[2], evaluated, *gradients[2];
    int64_t count;
} outcome_t;

static void forget(outcome_t *o)
{
    pt_free(o->gradients[0]);
    pt_free(o->gradients[1]);
}

static pt_status_t evaluate(rig_t *rig, int64_t sequences, double *out)
{
    pt_batch_view_t view = rig_view(rig, true, 0, sequences);

    view.training = false;
    PT_TRY(pt_model_clear_loss(rig->session.model, rig->world->machine.stream));
    for (int position = 0; position < rig->session.table.cut.positions; position++) {
        pt_action_t action = {.kind = PT_ACTION_F, .position = position};
        pt_passage_t passage = rig_passage(rig, &action);
        int64_t rows = view.token.shape[0];

        if (passage.in.ndim > 0)
            passage.in = pt_tensor_slice(passage.in, 0, 0, rows);
        if (passage.out.ndim > 0)
            passage.out = pt_tensor_slice(passage.out, 0, 0, rows);
        PT_TRY(pt_model_forward(rig->session.model, &action, &view, &passage,
                                rig->world->machine.stream));
    }
    return rig_sum(rig, pt_model_loss_accumulator(rig->session.model), out);
}

/* Two steps with an evaluation between, of fewer rows than a micro-batch has. */
static pt_status_t observe(rig_world_t *world, const pt_arch_t *arch,
                           const rig_choice_t *choice, outcome_t *out)
{
    rig_t rig;
    pt_status_t status = start(&rig, world, arch, choice);

    *out = (outcome_t){0};
    for (int step = 0; step < 2 && status == PT_OK; step++) {
        rig_data_t data = data_of(step);

        status = rig_gradients(&rig, &data, &out->loss[step]);
        if (status == PT_OK)
            status = all_gradients(&rig, &out->count, &out->gradients[step]);
        if (status == PT_OK && step == 0)
            status = evaluate(&rig, 1, &out->evaluated);
    }
    rig_destroy(&rig);
    return status;
}

static bool same_bits(const outcome_t *a, const outcome_t *b)
{
    size_t bytes = (size_t)a->count * sizeof(double);

    return a->count == b->count && memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(&a->evaluated, &b->evaluated, sizeof a->evaluated) == 0 &&
           memcmp(a->gradients[0], b->gradients[0], bytes) == 0 &&
           memcmp(a->gradients[1], b->gradients[1], bytes) == 0;
}

static void test_choice(rig_world_t *world, const pt_arch_t *arch,
                        const rig_choice_t *choice, const outcome_t *reference,
                        const char *name)
{
    outcome_t o;
    pt_status_t status = observe(world, arch, choice, &o);

    tap_ok(
        status == PT_OK && same_bits(&o, reference),
        "%s: recompute %d, %d chunks, %s, %s, units of %lld bytes: the same bits%s%s",
        name, choice->recompute_every, choice->chunks, choice->split ? "split" : "fused",
        choice->gpipe ? "gpipe" : "1f1b", (long long)choice->merge_bytes,
        status == PT_OK ? "" : ": ", status == PT_OK ? "" : pt_error_last()->text);
    pt_error_clear();
    forget(&o);
}

static void test_bits(rig_world_t *world, pt_arch_t arch, pt_dtype_t dtype,
                      const char *name)
{
    static const int every[] = {0, -1, 1, 2, 3, LAYERS};
    static const int64_t merge[] = {0, 9000, INT64_C(1) << 40};
    rig_choice_t choice = {.micro_batch = 2, .seed = 5};
    outcome_t reference, other;
    pt_arch_t plain;

    arch.dtype = dtype;
    plain = arch;
    plain.dropout = 0;
    if (!tap_ok(observe(world, &arch, &choice, &reference) == PT_OK, "%s: runs", name))
        return;
    for (int e = 0; e < 6; e++)
        for (int kind = 0; kind < 3; kind++) {
            choice.recompute_every = every[e];
            choice.split = kind == 2;
            choice.gpipe = kind == 1;
            choice.chunks = 1 + (2 * e + kind) % LAYERS;
            choice.merge_bytes = merge[(e + kind) % 3];
            test_choice(world, &arch, &choice, &reference, name);
        }
    choice.seed = 6;
    tap_ok(observe(world, &arch, &choice, &other) == PT_OK &&
               other.loss[0] != reference.loss[0] &&
               other.evaluated == reference.evaluated,
           "%s: another seed drops others, in training only", name);
    forget(&other);
    tap_ok(observe(world, &plain, &choice, &other) == PT_OK &&
               other.loss[0] != reference.loss[0] && other.loss[0] == other.loss[1] &&
               memcmp(other.gradients[0], other.gradients[1],
                      (size_t)other.count * sizeof(double)) == 0,
           "%s: without dropout the step does not matter", name);
    forget(&other);
    tap_ok(reference.loss[0] != reference.loss[1], "%s: with it each step drops others",
           name);
    forget(&reference);
}

/* A model that only evaluates keeps nothing, and comes to the same. */
static void test_inference(rig_world_t *world, const pt_arch_t *arch, const char *name)
{
    rig_choice_t choice = {.micro_batch = 2, .inference = true};
    rig_data_t data = data_of(0);
    outcome_t trained = {0};
    double loss = 0;
    rig_t rig;
    pt_status_t status = start(&rig, world, arch, &choice);

    if (status == PT_OK)
        status = rig_load(&rig, &data);
    if (status == PT_OK)
        status = evaluate(&rig, 1, &loss);
    rig_destroy(&rig);
    choice.inference = false;
    if (status == PT_OK)
        status = observe(world, arch, &choice, &trained);
    tap_ok(status == PT_OK && loss == trained.evaluated && loss > 0,
           "%s: without training the same loss: %.17g", name, loss);
    forget(&trained);
}

/* ---- finite differences ---- */

/* Mean loss with parameter `x` at base + h·direction. */
static pt_status_t loss_at(rig_t *rig, pt_tensor_t x, const double *base,
                           const double *direction, double h, double *loss)
{
    int64_t count = pt_tensor_count(&x);
    double moved[count];
    rig_data_t data = data_of(3);

    for (int64_t i = 0; i < count; i++)
        moved[i] = base[i] + h * direction[i];
    PT_TRY(rig_write(rig, x, moved));
    return rig_gradients(rig, &data, loss);
}

/* Central differences with h and h/2, extrapolated: error of order h⁴. */
static pt_status_t derivative(rig_t *rig, pt_tensor_t x, const double *base,
                              const double *direction, double *out)
{
    double h = 1e-3, slope[2];

    for (int i = 0; i < 2; i++, h /= 2) {
        double above = 0, below = 0;

        PT_TRY(loss_at(rig, x, base, direction, h, &above));
        PT_TRY(loss_at(rig, x, base, direction, -h, &below));
        slope[i] = (above - below) / (2 * h);
    }
    *out = (4 * slope[1] - slope[0]) / 3;
    return PT_OK;
}

/* Along the gradient itself plus a random direction of the same length. */
static pt_status_t check_param(rig_t *rig, int p, const double *gradient, double *error)
{
    pt_tensor_t x = pt_units_weight(rig->session.units, p);
    int64_t count = pt_tensor_count(&x);
    double base[count], direction[count], norm = 0, expected = 0, found = 0;
    uint64_t state = 1000 * (uint64_t)p;

    for (int64_t i = 0; i < count; i++)
        norm += gradient[i] * gradient[i];
    norm = sqrt(norm);
    for (int64_t i = 0; i < count; i++) {
        double unit =
            ((double)rig_draw(&state) * 0x1p-53 - 0.5) * sqrt(12.0 / (double)count);

        direction[i] = unit + (norm > 1e-9 ? gradient[i] / norm : 0);
        expected += gradient[i] * direction[i];
    }
    PT_TRY(rig_read(rig, x, base));
    PT_TRY(derivative(rig, x, base, direction, &found));
    PT_TRY(rig_write(rig, x, base));
    *error = fabs(found - expected) / fmax(norm, 1e-2);
    return PT_OK;
}

static pt_status_t check_gradient(rig_t *rig, double *worst, const char **name)
{
    rig_data_t data = data_of(3);
    double loss, *gradients = NULL;
    int64_t count, at = 0;

    *worst = 0;
    PT_TRY(rig_gradients(rig, &data, &loss));
    PT_TRY(all_gradients(rig, &count, &gradients));
    for (int p = 0; p < rig->session.table.count; p++) {
        const pt_param_t *param = &rig->session.table.params[p];
        double error = 0;

        PT_TRY(check_param(rig, p, gradients + at, &error));
        at += param->shape[0] * (param->ndim == 2 ? param->shape[1] : 1);
        if (!(error <= *worst)) {
            *worst = error;
            *name = param->part[0].name;
        }
    }
    pt_free(gradients);
    return PT_OK;
}

static void test_gradient(rig_world_t *world, pt_arch_t arch, const char *name)
{
    rig_choice_t choice = {.micro_batch = 2, .seed = 5, .recompute_every = -1};
    double worst = INFINITY;
    const char *where = "";
    rig_t rig;

    arch.layers = 2;
    pt_status_t status = start(&rig, world, &arch, &choice);
    if (status == PT_OK)
        status = check_gradient(&rig, &worst, &where);
    tap_ok(status == PT_OK && worst < 1e-8,
           "%s: gradients against finite differences %.1e, %s%s", name, worst, where,
           status == PT_OK ? "" : pt_error_last()->text);
    pt_error_clear();
    rig_destroy(&rig);
}

/* ---- initial weights ---- */

static pt_status_t check_init(rig_t *rig, bool *as_said)
{
    *as_said = true;
    for (int p = 0; p < rig->session.table.count; p++) {
        const pt_param_t *param = &rig->session.table.params[p];
        pt_tensor_t x = pt_units_weight(rig->session.units, p);
        int64_t cols = param->ndim == 2 ? param->shape[1] : 1;
        double values[pt_tensor_count(&x)];

        PT_TRY(rig_read(rig, x, values));
        for (int i = 0; i < param->parts; i++)
            for (int64_t e = 0; e < param->part[i].shape[0] * cols; e++) {
                double expected = param->init == PT_INIT_ONES;

                if (param->init == PT_INIT_NORMAL)
                    expected = param->init_std * pt_normal(11, param->part[i].id, e);
                *as_said &= values[param->part[i].first_row * cols + e] == expected;
            }
    }
    return PT_OK;
}

static pt_status_t check_padding(rig_t *rig, bool *zero)
{
    double all = 0, named = 0;

    for (int b = 0; b < pt_units_buckets(rig->session.units); b++) {
        double *values;
        pt_tensor_t x = pt_bucket_weights(rig->session.units, b);

        PT_TRY(PT_NEW("bucket", (size_t)pt_tensor_count(&x), &values));
        PT_TRY(rig_read(rig, x, values));
        for (int64_t i = 0; i < pt_tensor_count(&x); i++)
            all += values[i] != 0;
        pt_free(values);
    }
    for (int p = 0; p < rig->session.table.count; p++) {
        const pt_param_t *param = &rig->session.table.params[p];

        if (param->init != PT_INIT_ZEROS)
            named +=
                (double)(param->shape[0] * (param->ndim == 2 ? param->shape[1] : 1));
    }
    *zero = all == named;
    return PT_OK;
}

static void test_init(rig_world_t *world, const pt_arch_t *arch, const char *name)
{
    rig_choice_t choice = {.micro_batch = 2, .merge_bytes = 9000};
    bool as_said = false, zero = false;
    rig_t rig;
    pt_status_t status = start(&rig, world, arch, &choice);

    if (status == PT_OK)
        status = check_init(&rig, &as_said);
    if (status == PT_OK)
        status = check_padding(&rig, &zero);
    tap_ok(status == PT_OK && as_said, "%s: initial weights follow their key", name);
    tap_ok(status == PT_OK && zero, "%s: padding is zero", name);
    rig_destroy(&rig);
}

/* ---- large sizes ---- */

/* More rows than the 64 of a block of logits: one micro-batch of all against single
 * sequences. */
static void test_head_blocks(rig_world_t *world)
{
    pt_arch_t arch = gpt2;
    rig_choice_t whole = {.micro_batch = SEQUENCES}, single = {.micro_batch = 1};
    outcome_t a = {0}, b = {0};
    double worst = 0, largest = 0;

    arch.layers = 1;
    arch.vocab = 200000;
    arch.dropout = 0;
    make_data(arch.vocab);
    bool runs = observe(world, &arch, &whole, &a) == PT_OK &&
                observe(world, &arch, &single, &b) == PT_OK;
    for (int64_t i = 0; runs && i < a.count; i++) {
        worst = fmax(worst, fabs(a.gradients[1][i] - b.gradients[1][i]));
        largest = fmax(largest, fabs(b.gradients[1][i]));
    }
    tap_ok(runs && fabs(a.loss[1] - b.loss[1]) < 1e-12 * b.loss[1],
           "head in blocks: loss %.15g, %.15g", a.loss[1], b.loss[1]);
    tap_ok(runs && largest > 0 && worst < 1e-12 * largest,
           "head in blocks: gradients %.1e of %.1e", worst, largest);
    forget(&a);
    forget(&b);
    make_data(VOCAB);
}

static void test_all(rig_world_t *world)
{
    make_data(VOCAB);
    test_gradient(world, llama, "llama");
    test_gradient(world, gpt2, "gpt2");
    test_bits(world, llama, PT_F64, "llama fp64");
    test_bits(world, llama, PT_F32, "llama fp32");
    test_bits(world, gpt2, PT_F64, "gpt2 fp64");
    test_bits(world, gpt2, PT_F32, "gpt2 fp32");
    test_bits(world, llama, PT_BF16, "llama bf16");
    test_bits(world, gpt2, PT_BF16, "gpt2 bf16");
    test_bits(world, llama, PT_F16, "llama fp16");
    test_bits(world, gpt2, PT_F16, "gpt2 fp16");
    test_inference(world, &llama, "llama");
    test_inference(world, &gpt2, "gpt2");
    test_init(world, &llama, "llama");
    test_init(world, &gpt2, "gpt2");
    test_head_blocks(world);
}

int main(int argc, char **argv)
{
    return rig_main(&argc, &argv, test_all);
}
