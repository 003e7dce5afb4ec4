/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the tables of nodes: lifetimes, what recompute runs again, who adds
 * to a gradient; and what is refused. Expected lifetimes are read off the formulas of
 * the derivatives: dW = dyᵀx needs x and dy, the derivative of a norm its input and
 * statistics, that of attention q, k, v, o and the log-sum-exp. */
#include "regression/tap.h"

#include "penta/comm/mesh.h"
#include "penta/base/text.h"
#include "src/model/program.h"

#include <string.h>

enum { F = 1 << PT_PASS_FORWARD, B = 1 << PT_PASS_INPUT, W = 1 << PT_PASS_WEIGHT };

/* Rank 0 of `tensor` ranks that share the layers. */
typedef struct world {
    pt_transport_t *transport;
    pt_engine_t *engine;
    pt_mesh_t mesh;
    pt_config_t config;
    pt_arch_t arch;
    pt_param_table_t table;
    pt_units_t *units;
    pt_program_context_t context;
    pt_program_t program;
} world_t;

static pt_status_t open_world(world_t *w, int tensor, const char *const *options)
{
    pt_engine_options_t engine = {.max_requests = 8};
    pt_mesh_shape_t shape = pt_mesh_shape_default();
    pt_units_options_t units = {.in_flight = 1,
                                .weight_dtype = PT_F32,
                                .grad_dtype = PT_F32,
                                .wire_dtype = PT_F32};

    shape.size[PT_AXIS_TENSOR] = tensor;
    pt_config_defaults(&w->config);
    PT_TRY(pt_config_set(&w->config, "model.preset", "tiny", "test"));
    for (; *options; options += 2)
        PT_TRY(pt_config_set(&w->config, options[0], options[1], "test"));
    PT_TRY(pt_config_finish(&w->config));
    PT_TRY(pt_arch_from_config(&w->config, &w->arch));
    pt_cut_t cut;
    PT_TRY(pt_cut_create((int)w->arch.layers, 1, 1, &cut));
    PT_TRY(pt_param_table_create(&w->arch, cut, &w->table));
    PT_TRY(pt_transport_open_dry(0, tensor, &w->transport));
    PT_TRY(pt_engine_create(w->transport, &engine, &w->engine));
    PT_TRY(pt_mesh_shape_complete(&shape, tensor));
    PT_TRY(pt_mesh_create(w->engine, &shape, &w->mesh));
    PT_TRY(pt_units_create(&w->table, &w->mesh, NULL, &units, &w->units));
    w->context = (pt_program_context_t){.arch = &w->arch,
                                        .table = &w->table,
                                        .units = w->units,
                                        .mesh = &w->mesh.shape,
                                        .rows = 64,
                                        .training = true};
    return PT_OK;
}

static void close_world(world_t *w)
{
    pt_units_destroy(w->units);
    pt_mesh_destroy(&w->mesh);
    pt_engine_destroy(w->engine);
    pt_transport_close(w->transport);
    pt_param_table_destroy(&w->table);
}

static pt_program_t *describe(world_t *w, void (*block)(pt_program_t *program))
{
    pt_program_begin("block", &w->context, block == pt_describe_embedding ? -1 : 0,
                     &w->program);
    block(&w->program);
    return &w->program;
}

/* ---- lifetimes ---- */

typedef struct life {
    const char *name; /* "d…": the gradient of … */
    unsigned written, read;
} life_t;

/* `name` with "d ": the gradient of what follows; -1: there is not just one. */
static int find(const pt_program_t *p, const char *name)
{
    bool gradient = strncmp(name, "d ", 2) == 0;
    int found = -1;

    for (int t = PT_TENSOR_X; t < p->tensors; t++)
        if (p->tensor[t].is_gradient == gradient &&
            strcmp(p->tensor[t].name, name + 2 * gradient) == 0) {
            if (found >= 0)
                return -1;
            found = t;
        }
    return found;
}

static void test_lives(world_t *w, const char *name,
                       void (*block)(pt_program_t *program), const life_t *expected,
                       int count)
{
    pt_program_t *p = describe(w, block);
    bool ok = pt_program_end(p) == PT_OK;

    for (int i = 0; i < count; i++) {
        const life_t *life = &expected[i];
        int t = find(p, life->name);
        const pt_block_tensor_t *x = &p->tensor[t < 0 ? 0 : t];

        if (t >= 0 && x->written == life->written && x->read == life->read)
            continue;
        printf("# %s of %s: tensor %d written %u, read %u\n", life->name, name, t,
               x->written, x->read);
        ok = false;
    }
    tap_ok(ok, "%s: each tensor is kept until its last reader", name);
}

static const life_t llama_attention[] = {
    {"x", 0, F | B},   {"1/deviation", F, B},     {"normed", F, F | W},
    {"qkv", F, F | B}, {"o", F, F | B | W},       {"log-sum-exp", F, B},
    {"branch", F, F},  {"part of dweight", B, W}, {"d branch", B, B | W},
    {"d o", B, B},     {"d qkv", B, B | W},       {"d normed", B, B},
};
static const life_t qwen3_attention[] = {
    {"qkv", F, F | B},
    {"normed q|k", F, F | B},
    {"d qkv", B, B | W},
};
static const life_t gpt2_ffn[] = {
    {"mean", F, B},       {"normed", F, F | W},    {"wide", F, F | B},
    {"active", F, F | W}, {"part of dbias", B, W}, {"d wide", B, B | W},
    {"d active", B, B},   {"d branch", B, B | W},
};
#define COUNT(list) (int)(sizeof(list) / sizeof(list)[0])

static int steps_again(world_t *w, void (*block)(pt_program_t *program))
{
    pt_program_t *p = describe(w, block);

    return pt_program_end(p) == PT_OK ? p->steps[PT_LIST_AGAIN] : -1;
}

/* ---- orders ---- */

static const char *order_text(const pt_program_t *p, pt_list_t list, char *buffer,
                              size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    for (int s = 0; s < p->steps[list]; s++) {
        const pt_step_t *step = &p->list[list][s];
        pt_text_add(&text, "%s%c.%s%s%s", s ? " " : "", "fiw"[step->pass],
                    step -> node -> kind -> name, step -> again ? "*" : "",
                    step->ends ? "!" : "");
    }
    return buffer;
}

static void test_order(world_t *w, const char *what,
                       void (*block)(pt_program_t *program), pt_list_t list,
                       const char *expected)
{
    pt_program_t *p = describe(w, block);
    char text[512] = "";
    pt_status_t status = pt_program_end(p);

    order_text(p, list, text, sizeof text);
    tap_ok(status == PT_OK && strcmp(text, expected) == 0, "%s: %s", what,
           status == PT_OK ? text : pt_error_last()->text);
    pt_error_clear();
}

static pt_status_t nothing(const pt_call_t *call, const pt_node_t *node)
{
    (void)call, (void)node;
    return PT_OK;
}

/* Stands for the gather of rows and its adjoint: both communicate; the gathered rows
 * are not kept. */
static const pt_node_kind_t gather = {
    .name = "gather",
    .pass = {{PT_USE(X), PT_USE(Y), nothing, nothing},
             {PT_USE(DY), PT_USE(DX), nothing, nothing}},
    .replay = PT_REPLAY_ALWAYS};

static void gathered(pt_program_t *p)
{
    int64_t hidden = p->context.arch->hidden;
    int normed = pt_program_rows(p, "normed", hidden);
    int all = pt_program_rows(p, "all", hidden), wide = pt_program_rows(p, "wide", 8);
    int active = pt_program_rows(p, "active", 8),
        branch = pt_program_rows(p, "branch", hidden);

    pt_add_norm(p, PT_TENSOR_X, normed, PT_ROLE_FFN_NORM, PT_ROLE_NONE);
    pt_program_add(
        p, &(pt_node_t){.kind = &gather, .operand = {[PT_X] = normed, [PT_Y] = all}});
    pt_add_linear(p, all, wide, PT_ROLE_FFN_IN, PT_ROLE_NONE);
    pt_add_activate(p, wide, active, PT_ROLE_NONE);
    pt_add_linear(p, active, branch, PT_ROLE_FFN_OUT, PT_ROLE_NONE);
    pt_add_residual(p, PT_TENSOR_X, branch, PT_TENSOR_Y, PT_ROLE_NONE,
                    PT_DROPOUT_FFN_OUT);
}

static void test_orders(world_t *w)
{
    w->context.fused = true;
    test_order(w, "forward ends a gather before its reader", gathered, PT_LIST_FORWARD,
               "f.norm f.gather f.gather! f.linear f.activate f.linear f.residual");
    test_order(w, "weight steps fill the gap of the adjoint; only the gather runs again",
               gathered, PT_LIST_BACKWARD,
               "i.residual i.linear i.activate i.linear i.gather w.linear f.gather* "
               "f.gather*! w.linear i.gather! i.norm w.norm");
    w->context.selective = true;
    test_order(w, "selective: what is cheap runs again, too, before its reader",
               gathered, PT_LIST_BACKWARD,
               "i.residual i.linear i.activate i.linear i.gather f.activate* w.linear "
               "f.norm* f.gather* f.gather*! w.linear i.gather! i.norm w.norm");
    w->context.selective = w->context.fused = false;
    test_order(w, "a late weight pass gathers again", gathered, PT_LIST_WEIGHT,
               "w.linear f.gather* f.gather*! w.linear w.norm");
    tap_ok(w->program.tensor[find(&w->program, "normed")].read & W &&
               w->program.tensor[find(&w->program, "all")].replayed,
           "so the norm's output is kept, not what was gathered");
}

/* ---- refusals ---- */

static void test_refused(world_t *w, const char *what,
                         void (*block)(pt_program_t *program), const char *text)
{
    pt_status_t status = pt_program_end(describe(w, block));

    tap_ok(status == PT_INTERNAL && strstr(pt_error_last()->text, text),
           "%s is refused: %s", what, pt_error_last()->text);
    pt_error_clear();
}

static void norm_of_part(pt_program_t *p)
{
    int part = pt_program_rows(p, "out", p->context.arch->hidden);

    pt_program_set_placement(p, PT_TENSOR_X, PT_AXIS_TENSOR, (pt_dist_t){PT_SHARDED, 1});
    pt_add_linear(p, PT_TENSOR_X, part, PT_ROLE_ATTENTION_OUT, PT_ROLE_NONE);
    pt_add_norm(p, part, PT_TENSOR_Y, PT_ROLE_FFN_NORM, PT_ROLE_NONE);
}

static void linear_of_all(pt_program_t *p)
{
    pt_add_linear(p, PT_TENSOR_X, PT_TENSOR_Y, PT_ROLE_ATTENTION_OUT, PT_ROLE_NONE);
}

static void unwritten(pt_program_t *p)
{
    int wide = pt_program_rows(p, "wide", 8), active = pt_program_rows(p, "active", 8);
    int branch = pt_program_rows(p, "branch", p->context.arch->hidden);

    pt_add_activate(p, wide, active, PT_ROLE_NONE);
    pt_add_linear(p, active, branch, PT_ROLE_FFN_OUT, PT_ROLE_NONE);
    pt_add_residual(p, PT_TENSOR_X, branch, PT_TENSOR_Y, PT_ROLE_NONE,
                    PT_DROPOUT_FFN_OUT);
}

static void two_linears(pt_program_t *p)
{
    int a = pt_program_rows(p, "a", 8), b = pt_program_rows(p, "b", 8);
    int both = pt_program_rows(p, "both", 8);

    pt_add_linear(p, PT_TENSOR_X, a, PT_ROLE_FFN_IN, PT_ROLE_NONE);
    pt_add_linear(p, PT_TENSOR_X, b, PT_ROLE_FFN_IN, PT_ROLE_NONE);
    pt_add_residual(p, a, b, both, PT_ROLE_NONE, PT_DROPOUT_FFN_OUT);
    pt_add_residual(p, PT_TENSOR_X, both, PT_TENSOR_Y, PT_ROLE_NONE, PT_DROPOUT_FFN_OUT);
}

/* Two branches from one x, each added at its own place: the second's gradient would
 * replace that of the sum. */
static void parallel_branches(pt_program_t *p)
{
    int64_t hidden = p->context.arch->hidden;
    int a = pt_program_rows(p, "a", hidden), b = pt_program_rows(p, "b", hidden);
    int sum = pt_program_rows(p, "sum", hidden);

    pt_add_norm(p, PT_TENSOR_X, a, PT_ROLE_ATTENTION_NORM, PT_ROLE_NONE);
    pt_add_residual(p, PT_TENSOR_X, a, sum, PT_ROLE_NONE, PT_DROPOUT_FFN_OUT);
    pt_add_norm(p, PT_TENSOR_X, b, PT_ROLE_FFN_NORM, PT_ROLE_NONE);
    pt_add_residual(p, sum, b, PT_TENSOR_Y, PT_ROLE_NONE, PT_DROPOUT_FFN_OUT);
}

static void gather_forgotten(pt_program_t *p)
{
    int wide = pt_program_rows(p, "wide", pt_program_size(p, PT_ROLE_FFN_IN, 0));

    pt_program_set_placement(p, PT_TENSOR_X, PT_AXIS_TENSOR, (pt_dist_t){PT_SHARDED, 0});
    pt_add_linear(p, PT_TENSOR_X, wide, PT_ROLE_FFN_IN, PT_ROLE_NONE);
}

static void bias_of_part(pt_program_t *p)
{
    pt_program_set_placement(p, PT_TENSOR_X, PT_AXIS_TENSOR, (pt_dist_t){PT_SHARDED, 1});
    pt_add_linear(p, PT_TENSOR_X, PT_TENSOR_Y, PT_ROLE_ATTENTION_OUT,
                  PT_ROLE_ATTENTION_OUT_BIAS);
}

static void share_of_rows(pt_program_t *p)
{
    int normed = pt_program_rows(p, "normed", p->context.arch->hidden);

    pt_program_set_placement(p, PT_TENSOR_X, PT_AXIS_TENSOR, (pt_dist_t){PT_SHARDED, 0});
    pt_add_norm(p, PT_TENSOR_X, normed, PT_ROLE_FFN_NORM, PT_ROLE_NONE);
}

static void too_many(pt_program_t *p)
{
    for (int i = 0; i < PT_PROGRAM_TENSORS; i++)
        pt_program_rows(p, "one more", 1);
}

static const char *const none[] = {NULL};
static const char *const qwen3[] = {"model.qk_norm", "yes", NULL};
static const char *const gpt2[] = {"model.norm", "layer", "model.activation", "gelu",
                                   "model.bias", "all",   "model.positions",  "learned",
                                   NULL};

static void test_alone(void)
{
    world_t w;

    tap_ok(open_world(&w, 1, none) == PT_OK, "a llama");
    test_lives(&w, "attention of a llama", pt_describe_attention, llama_attention,
               COUNT(llama_attention));
    tap_ok(steps_again(&w, pt_describe_attention) == 5,
           "again: norm, linear, rotary of q and k, attend; not what only the next "
           "block reads");
    test_orders(&w);
    tap_ok(steps_again(&w, pt_describe_ffn) == 3, "again: norm, linear, activate");
    test_refused(&w, "a tensor nobody wrote", unwritten,
                 "node activate reads wide before any node has written it");
    test_refused(&w, "a gradient nobody can add to", two_linears,
                 "node linear cannot add to the gradient of x");
    test_refused(
        &w, "a gradient that another has replaced", parallel_branches,
        "node residual reads the gradient of sum, but its memory holds that of "
        "another tensor");
    test_refused(&w, "more tensors than fit", too_many, "more than 64 tensors");
    close_world(&w);
    tap_ok(open_world(&w, 1, qwen3) == PT_OK, "a qwen3");
    test_lives(&w, "attention of a qwen3", pt_describe_attention, qwen3_attention,
               COUNT(qwen3_attention));
    close_world(&w);
    tap_ok(open_world(&w, 1, gpt2) == PT_OK, "a gpt2");
    test_lives(&w, "ffn of a gpt2", pt_describe_ffn, gpt2_ffn, COUNT(gpt2_ffn));
    close_world(&w);
}

static void test_shared(void)
{
    world_t w;

    tap_ok(open_world(&w, 2, none) == PT_OK, "two ranks share the layers");
    test_refused(
        &w, "a norm of a partial sum", norm_of_part,
        "node norm reads out as if it were whole, but each rank of the tensor axis");
    test_refused(&w, "a share of the weights for all columns", linear_of_all,
                 "node linear has a share of the columns of its weights on the tensor "
                 "axis, but all columns of x");
    test_refused(
        &w, "a linear layer of a share of the rows", gather_forgotten,
        "node linear has a share of the rows of its weights on the tensor axis, but a "
        "share of x");
    test_refused(&w, "a share of a gradient for a whole", share_of_rows,
                 "node norm leaves a part of the gradient of layers.0.ffn.norm.weight");
    test_refused(&w, "a token table cut by rows, unsummed", pt_describe_embedding,
                 "block block leaves y as parts of a sum");
    test_refused(&w, "a residual of a partial sum", pt_describe_attention,
                 "node residual reads branch as if it were whole");
    close_world(&w);
    tap_ok(open_world(&w, 2, qwen3) == PT_OK, "two ranks share the heads of a qwen3");
    test_refused(&w, "only the sum: the table knows that norms of heads leave parts",
                 pt_describe_attention, "node residual reads branch");
    close_world(&w);
    tap_ok(open_world(&w, 2, gpt2) == PT_OK, "two ranks share the layers of a gpt2");
    test_refused(&w, "a bias on each part of a sum", bias_of_part,
                 "node linear adds its bias to each part of a sum");
    close_world(&w);
}

int main(void)
{
    test_alone();
    test_shared();
    return tap_done();
}
