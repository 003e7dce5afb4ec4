/* TEST np=1,2,3,4,8 backend=cpu,shadow timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says of each rank is what a run of that rank does: bytes of memory by
 * class, calls, messages and bytes by axis and kind, calls, FLOPs and bytes by op. */
#include "regression/train/train_test.h"

#include "penta/plan/plan.h"

enum { STEPS = 3 };

static bool same_rows(const pt_traffic_t *run, const pt_traffic_t *setup,
                      const pt_traffic_t *step, int steps)
{
    bool same = true;

    for (int axis = 0; axis <= PT_AXIS_WORLD; axis++)
        for (int kind = 0; kind < PT_TRANSFER_KINDS; kind++) {
            const pt_traffic_row_t *is = &run->rows[axis][kind];
            const pt_traffic_row_t *a = &setup->rows[axis][kind];
            const pt_traffic_row_t *b = &step->rows[axis][kind];
            bool equal = is->calls == a->calls + steps * b->calls &&
                         is->messages == a->messages + steps * b->messages &&
                         is->bytes_sent == a->bytes_sent + steps * b->bytes_sent;

            if (!equal)
                tap_note(
                    "rank %d: %s %s: %lld calls, %lld bytes; planned %lld + %d * %lld "
                    "calls, %lld + %d * %lld bytes",
                    tt.rank, pt_axis_name((pt_axis_t)axis),
                    pt_transfer_kind_name((pt_transfer_kind_t)kind),
                    (long long)is->calls, (long long)is->bytes_sent,
                    (long long)a->calls, steps, (long long)b->calls,
                    (long long)a->bytes_sent, steps, (long long)b->bytes_sent);
            same = same && equal;
        }
    return same;
}

static bool same_ops(const pt_op_count_t *now, const pt_op_count_t *before,
                     const pt_op_count_t *planned)
{
    bool same = true;

    for (int op = 0; op < PT_OP_COUNT; op++) {
        bool equal = now[op].calls - before[op].calls == STEPS * planned[op].calls &&
                     now[op].flops - before[op].flops == STEPS * planned[op].flops &&
                     now[op].bytes - before[op].bytes == STEPS * planned[op].bytes;

        if (!equal)
            tap_note("rank %d: %s: %lld calls, planned %d * %lld", tt.rank,
                     pt_op_name((pt_op_id_t)op),
                     (long long)(now[op].calls - before[op].calls), STEPS,
                     (long long)planned[op].calls);
        same = same && equal;
    }
    return same;
}

static bool same_bytes(const pt_trainer_t *t, const pt_plan_t *plan)
{
    bool same = true;

    for (int c = 0; c < PT_CLASS_COUNT; c++) {
        int64_t is = t->session.arena[c].peak;

        if (is != plan->bytes[c])
            tap_note("rank %d: %s: %lld bytes, planned %lld", tt.rank,
                     pt_memory_class_name((pt_memory_class_t)c), (long long)is,
                     (long long)plan->bytes[c]);
        same = same && is == plan->bytes[c] && t->session.arena[c].capacity == is;
    }
    /* Nothing lives on the device beside the arenas. */
    return same && t->session.device->live_bytes == plan->total_bytes;
}

typedef struct measured {
    pt_trainer_t trainer;
    pt_op_count_t before[PT_OP_COUNT];
    pt_traffic_t setup;
} measured_t;

static void measure(const pt_config_t *config, measured_t *m)
{
    MUST(pt_trainer_create(config, tt.transport, &m->trainer));
    m->setup = *pt_engine_traffic(m->trainer.session.engine);
    memcpy(m->before, m->trainer.session.device->counts, sizeof m->before);
    for (int i = 0; i < STEPS; i++) {
        pt_step_result_t step;
        MUST(pt_train_step(&m->trainer, NULL, NULL, &step));
    }
    MUST(pt_units_settle(m->trainer.session.units, m->trainer.session.stream));
}

static void test_plan(const char *name, const char *settings)
{
    static measured_t m;
    pt_config_t *config = tt_config(settings, "");
    pt_plan_t plan, other;
    int64_t tokens = config->train.global_batch * config->train.sequence;

    MUST(pt_train_plan(config, tt.rank, tt.size, NULL, &plan));
    measure(config, &m);
    tap_all(same_bytes(&m.trainer, &plan), "%s: memory", name);
    tap_all(same_rows(pt_engine_traffic(m.trainer.session.engine), &plan.setup,
                      &plan.step, STEPS),
            "%s: traffic", name);
    tap_all(same_ops(m.trainer.session.device->counts, m.before, plan.step_ops),
            "%s: ops", name);
    tap_all(plan.tokens == tokens && plan.rank == tt.rank && plan.ranks == tt.size &&
                plan.parameters == pt_param_table_elements(&m.trainer.session.table) &&
                plan.micro_batches == m.trainer.session.schedule.micro_batches,
            "%s: sizes", name);
    /* A plan of a world of another size is another plan. */
    MUST(pt_train_plan(config, tt.rank, tt.size + 1, NULL, &other));
    tap_all(memcmp(&plan.step.rows, &other.step.rows, sizeof plan.step.rows) != 0 &&
                memcmp(plan.bytes, other.bytes, sizeof plan.bytes) != 0,
            "%s: one rank more is another plan", name);
    pt_trainer_destroy(&m.trainer);
    pt_free(config);
}

/* Bytes of a step by hand: a reduce-scatter and an all-gather of every unit, padded to
 * 1,024 elements a tensor and cut over the replicas between such blocks, as evenly as
 * they allow. Gradients are gathered at stage 0 and weights at stage 1, where moments
 * (and master weights, of which fp32 needs none) are cut as the sums are. One layer of
 * a Llama: width 32, ffn 48, 4 and 2 heads of 8. */
static void test_by_hand(int zero, bool bf16)
{
    static const int64_t layer[] = {64 * 32, 32 * 32, 32, 96 * 32, 32 * 48, 32};
    char more[128];
    pt_plan_t plan;
    int64_t unit[3] = {256 * 32, 0, 1024 + 256 * 32}, sum = 0, own = 0;
    const pt_traffic_row_t *rows = plan.step.rows[PT_AXIS_DATA];
    int gathered = zero && bf16 ? 2 : 4, moments = bf16 ? 12 : 8;

    snprintf(more, sizeof more, "model.layers=1 train.precision=%s parallel.zero=%d",
             bf16 ? "bf16" : "fp32", zero);
    pt_config_t *config = tt_config(TT_LLAMA, more);
    for (int i = 0; i < 6; i++)
        unit[1] += (layer[i] + 1023) / 1024 * 1024;
    for (int u = 0; u < 3; u++) {
        int64_t blocks = unit[u] / 1024;
        sum += unit[u];
        own += 1024 * (blocks * (tt.rank + 1) / tt.size - blocks * tt.rank / tt.size);
    }
    MUST(pt_train_plan(config, tt.rank, tt.size, NULL, &plan));
    tap_all(plan.bytes[PT_CLASS_PARAMETERS] == (bf16 ? 2 : 4) * sum &&
                plan.bytes[PT_CLASS_OPTIMIZER] == moments * (zero ? own : sum),
            "%s: weights and moments as counted by hand", more);
    tap_all(rows[PT_REDUCE_SCATTER].bytes_sent == 4 * (sum - own) &&
                rows[PT_ALL_GATHER].bytes_sent == gathered * own * (tt.size - 1) &&
                rows[PT_REDUCE_SCATTER].calls == (tt.size > 1 ? 3 : 0) &&
                rows[PT_ALL_GATHER].calls == rows[PT_REDUCE_SCATTER].calls,
            "%s: traffic as counted by hand", more);
    pt_free(config);
}

/* Bytes a parameter of the three settings of mixed precision: 2 + 4 + 4 + 8, gradients
 * of 2, and moments of 2 each (design: 18, 16, 12). Every tensor is a whole number of
 * 1,024 elements, so nothing is padded. The wire of gradients takes what it says. */
static void test_bytes_a_parameter(void)
{
    static const struct {
        const char *settings;
        int parameter, wire_bytes;
    } kinds[] = {
        {"train.precision=bf16", 18, 4},
        {"train.precision=bf16 parallel.reduce_dtype=bf16", 18, 2},
        {"train.precision=bf16 train.grad_dtype=bf16", 16, 2},
        {"train.precision=bf16 train.grad_dtype=bf16 train.moments_dtype=bf16", 12, 2},
        {"train.precision=fp16", 18, 4},
        {"train.precision=fp32", 16, 4},
        {"train.precision=fp64", 32, 8},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char more[256];
        pt_plan_t plan;

        snprintf(more, sizeof more,
                 "model.hidden=1024 model.ffn=1024 model.heads=16 model.kv_heads=8 "
                 "model.head_dim=64 model.vocab=3072 model.layers=2 %s",
                 kinds[i].settings);
        pt_config_t *config = tt_config(TT_LLAMA, more);
        MUST(pt_train_plan(config, tt.rank, tt.size, NULL, &plan));
        int64_t state = plan.bytes[PT_CLASS_PARAMETERS] +
                        plan.bytes[PT_CLASS_GRADIENTS] + plan.bytes[PT_CLASS_OPTIMIZER];
        int64_t is = plan.step.rows[PT_AXIS_DATA][PT_REDUCE_SCATTER].bytes_sent, all;

        tap_all(state == plan.parameters * kinds[i].parameter,
                "%s: %d bytes a parameter", kinds[i].settings, kinds[i].parameter);
        MPI_Allreduce(&is, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        tap_all(all == plan.parameters * kinds[i].wire_bytes * (tt.size - 1),
                "%s: %d bytes a gradient sent", kinds[i].settings, kinds[i].wire_bytes);
        pt_free(config);
    }
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", 20000);
    for (int zero = 0; zero < 2; zero++) {
        test_by_hand(zero, false);
        test_by_hand(zero, true);
    }
    test_bytes_a_parameter();
    test_plan("bf16", TT_LLAMA "train.precision=bf16 ");
    test_plan("bf16, 12 bytes", TT_GPT2 "train.precision=bf16 train.grad_dtype=bf16 "
                                        "train.moments_dtype=bf16 ");
    test_plan("fp16, bf16 wire", TT_QWEN "train.precision=fp16 "
                                         "parallel.reduce_dtype=bf16 ");
    test_plan("fp32, bf16 wire", TT_LLAMA "parallel.reduce_dtype=bf16 ");
    test_plan("llama", TT_LLAMA);
    test_plan("gpt2", TT_GPT2 "train.precision=fp64 train.global_batch=7 ");
    test_plan("qwen", TT_QWEN "train.micro_batch=1 parallel.recompute=every:2 ");
    test_plan("full recompute",
              TT_GPT2 "parallel.recompute=full parallel.schedule=gpipe "
                      "train.micro_batch=1 ");
    test_plan("sharded moments", TT_LLAMA "train.precision=bf16 parallel.zero=1 ");
    test_plan("sharded, merged", TT_GPT2 "parallel.unit_mib=1 parallel.zero=1 ");
    test_plan("merged units", TT_LLAMA "parallel.unit_mib=1 parallel.overlap=false ");
    test_plan("one in flight",
              TT_QWEN "comm.in_flight=1 parallel.recompute=selective ");
    return tt_finish();
}
