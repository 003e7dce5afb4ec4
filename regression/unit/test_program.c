/* TEST timeout=60 */
/* What follows from the tables of nodes: lifetimes, what recompute runs again, who adds to a gradient; and what is
 * refused. Expected lifetimes are read off the formulas of the derivatives: dW = dyᵀx needs x and dy, the derivative of
 * a norm its input and statistics, that of attention q, k, v, o and the log-sum-exp. */
#include "regression/tap.h"

#include "penta/comm/mesh.h"
#include "src/model/program.h"

#include <string.h>

enum { F = 1 << PT_PASS_FORWARD, B = 1 << PT_PASS_INPUT, W = 1 << PT_PASS_WEIGHT };

/* Rank 0 of `tensor` ranks that share the layers. */
typedef struct world {
    pt_wire_t *wire;
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
    PT_TRY(pt_param_table_create(&w->arch, &w->table));
    PT_TRY(pt_wire_open_dry(0, tensor, &w->wire));
    PT_TRY(pt_engine_create(w->wire, &engine, &w->engine));
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
    pt_wire_close(w->wire);
    pt_param_table_destroy(&w->table);
}

static pt_program_t *describe(world_t *w, void (*block)(pt_program_t *program))
{
    pt_program_begin("block", &w->context, 0, &w->program);
    block(&w->program);
    return &w->program;
}

/* ---- lifetimes ---- */

typedef struct life {
    const char *name; /* "d…": the gradient of … */
    unsigned written, read;
    bool replayed;
} life_t;

static void test_lives(world_t *w, const char *name,
                       void (*block)(pt_program_t *program), const life_t *expected,
                       int count)
{
    pt_program_t *p = describe(w, block);
    bool ok = pt_program_end(p) == PT_OK;

    for (int i = 0; i < count; i++) {
        const life_t *life = &expected[i];
        int found = 0;

        for (int t = 0; t < p->tensors; t++) {
            const pt_block_tensor_t *x = &p->tensor[t];
            bool gradient = life->name[0] == 'd' && strncmp(life->name, "d ", 2) == 0;

            if (x->is_gradient != gradient ||
                strcmp(x->name, life->name + 2 * gradient) != 0)
                continue;
            found++;
            if (x->written != life->written || x->read != life->read ||
                x->replayed != life->replayed) {
                printf("# %s of %s: written %u, read %u, replayed %d\n", life->name,
                       name, x->written, x->read, x->replayed);
                ok = false;
            }
        }
        if (found != 1) {
            printf("# %s of %s: found %d times\n", life->name, name, found);
            ok = false;
        }
    }
    tap_ok(ok, "%s: each tensor is kept until its last reader", name);
}

static const life_t llama_attention[] = {
    {"x", 0, F | B, false},        {"1/deviation", F, B, false},
    {"normed", F, F | W, true},    {"qkv", F, F | B, false},
    {"o", F, F | B | W, false},    {"log-sum-exp", F, B, false},
    {"branch", F, F, false},       {"part of dweight", B, W, false},
    {"d branch", B, B | W, false}, {"d o", B, B, false},
    {"d qkv", B, B | W, false},    {"d normed", B, B, false},
};
static const life_t qwen3_attention[] = {
    {"qkv", F, F | B, false},          {"normed q|k", F, F | B, false},
    {"1/deviation of q", F, B, false}, {"part of dk_norm", B, W, false},
    {"d qkv", B, B | W, false},
};
static const life_t gpt2_ffn[] = {
    {"mean", F, B, false},          {"normed", F, F | W, true},
    {"wide", F, F | B, false},      {"active", F, F | W, true},
    {"part of dbias", B, W, false}, {"d wide", B, B | W, false},
    {"d active", B, B, false},      {"d branch", B, B | W, false},
};
#define COUNT(list) (int)(sizeof(list) / sizeof(list)[0])

static int steps_again(world_t *w, void (*block)(pt_program_t *program))
{
    pt_program_t *p = describe(w, block);

    return pt_program_end(p) == PT_OK ? p->steps[PT_LIST_AGAIN] : -1;
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

    pt_program_set_spread(p, PT_TENSOR_X, PT_AXIS_TENSOR, (pt_dist_t){PT_SHARDED, 1});
    pt_add_linear(p, PT_TENSOR_X, part, PT_ROLE_ATTENTION_OUT, PT_ROLE_COUNT);
    pt_add_norm(p, part, PT_TENSOR_Y, PT_ROLE_FFN_NORM, PT_ROLE_COUNT);
}

static void linear_of_all(pt_program_t *p)
{
    pt_add_linear(p, PT_TENSOR_X, PT_TENSOR_Y, PT_ROLE_ATTENTION_OUT, PT_ROLE_COUNT);
}

static void unwritten(pt_program_t *p)
{
    int wide = pt_program_rows(p, "wide", 8), active = pt_program_rows(p, "active", 8);

    pt_add_activate(p, wide, active, PT_ROLE_COUNT);
}

static void two_linears(pt_program_t *p)
{
    int a = pt_program_rows(p, "a", 8), b = pt_program_rows(p, "b", 8);
    int both = pt_program_rows(p, "both", 8);

    pt_add_linear(p, PT_TENSOR_X, a, PT_ROLE_FFN_IN, PT_ROLE_COUNT);
    pt_add_linear(p, PT_TENSOR_X, b, PT_ROLE_FFN_IN, PT_ROLE_COUNT);
    pt_add_residual(p, a, b, both, PT_ROLE_COUNT, PT_DROPOUT_FFN_OUT);
    pt_add_residual(p, PT_TENSOR_X, both, PT_TENSOR_Y, PT_ROLE_COUNT,
                    PT_DROPOUT_FFN_OUT);
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
    tap_ok(steps_again(&w, pt_describe_attention) == 4,
           "again: norm, linear, rotary, attend; not what only the next block reads");
    tap_ok(steps_again(&w, pt_describe_ffn) == 3, "again: norm, linear, activate");
    test_refused(&w, "a tensor nobody wrote", unwritten,
                 "node activate reads wide before any node has written it");
    test_refused(&w, "a gradient nobody can add to", two_linears,
                 "node linear cannot add to the gradient of x");
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
                 "axis, but all of x");
    test_refused(&w, "a residual of a partial sum", pt_describe_attention,
                 "node residual reads branch as if it were whole");
    close_world(&w);
}

int main(void)
{
    test_alone();
    test_shared();
    return tap_done();
}
