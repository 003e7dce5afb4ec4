/* TEST np=1 backend=cpu,shadow timeout=100 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers large enough to be cut into several GEMM calls, against fp64 dot
 * products. */
#include "regression/train/rig_step.h"
#include "src/model/block.h"

typedef struct product {
    pt_tensor_t x, weight, y, dx, dweight, check;
} product_t;

/* Of dx both sides are cut, of y the columns, of dweight the rows. */
enum { N = 600, IN = 600, OUT = 20000 };

static pt_status_t make_product(rig_world_t *world, pt_arena_t *arena, product_t *p)
{
    const int64_t x[] = {N, IN}, weight[] = {OUT, IN}, y[] = {N, OUT};

    for (int place = 0; place < 2; place++) {
        PT_TRY(pt_arena_tensor(arena, "x", PT_F32, 2, x, &p->x));
        PT_TRY(pt_arena_tensor(arena, "weight", PT_F32, 2, weight, &p->weight));
        PT_TRY(pt_arena_tensor(arena, "y", PT_F32, 2, y, &p->y));
        PT_TRY(pt_arena_tensor(arena, "dx", PT_F32, 2, x, &p->dx));
        PT_TRY(pt_arena_tensor(arena, "dweight", PT_F32, 2, weight, &p->dweight));
        PT_TRY(pt_arena_tensor(arena, "check", PT_F32, 2, weight, &p->check));
        if (place == 0)
            PT_TRY(pt_device_place_arena(world->machine.device, arena));
    }
    return PT_OK;
}

/* Largest difference of element i and what `at` says, i over a sample of x. */
static pt_status_t check_sample(rig_world_t *world, pt_tensor_t x, const float *a,
                                const float *b, const int64_t step[4], int64_t depth,
                                double *worst)
{
    int64_t cols = x.shape[1];
    float *found;

    PT_TRY(PT_NEW("product", (size_t)pt_tensor_count(&x), &found));
    PT_TRY(rig_copy(world, x, found, false));
    for (int64_t i = 0; i < pt_tensor_count(&x); i += 997) {
        double sum = 0;

        for (int64_t k = 0; k < depth; k++)
            sum += (double)a[i / cols * step[0] + k * step[1]] *
                   (double)b[i % cols * step[2] + k * step[3]];
        *worst = fmax(*worst, fabs(found[i] - sum) / sqrt((double)depth));
    }
    pt_free(found);
    return PT_OK;
}

/* Products large enough to be cut, against fp64 dot products. */
static pt_status_t check_linear(rig_world_t *world, product_t *p, double *worst)
{
    pt_model_t model = {.device = world->machine.device,
                        .engine = world->machine.engine};
    pt_call_t call = {.model = &model, .stream = world->machine.stream};
    float *x, *w;
    uint64_t state = 9;

    PT_TRY(PT_NEW("x", N * IN, &x));
    PT_TRY(PT_NEW("weight", OUT * IN, &w));
    for (int64_t i = 0; i < N * IN; i++)
        x[i] = (float)rig_draw(&state) * 0x1p-53f - 0.5f;
    for (int64_t i = 0; i < OUT * IN; i++)
        w[i] = (float)rig_draw(&state) * 0x1p-53f - 0.5f;
    PT_TRY(rig_copy(world, p->x, x, true));
    PT_TRY(rig_copy(world, p->weight, w, true));
    PT_TRY(pt_op_fill(world->machine.device, world->machine.stream,
                      &(pt_op_fill_t){.x = p->dweight}));
    PT_TRY(pt_linear_forward(&call, p->x, p->weight, p->y));
    PT_TRY(check_sample(world, p->y, x, w, (int64_t[]){IN, 1, IN, 1}, IN, worst));
    float *y;
    PT_TRY(PT_NEW("y", N * OUT, &y));
    PT_TRY(rig_copy(world, p->y, y, false));
    PT_TRY(pt_linear_input(&call, p->y, p->weight, p->dx));
    PT_TRY(check_sample(world, p->dx, y, w, (int64_t[]){OUT, 1, 1, IN}, OUT, worst));
    PT_TRY(pt_linear_weight(&call, p->y, p->x, p->dweight));
    PT_TRY(check_sample(world, p->dweight, y, x, (int64_t[]){1, OUT, 1, IN}, N, worst));
    pt_free(y);
    pt_free(w);
    pt_free(x);
    return PT_OK;
}

static void test_linear(rig_world_t *world)
{
    pt_arena_t arena;
    product_t product;
    double worst = 0;
    int64_t before = world->machine.device->counts[PT_OP_gemm].calls;

    pt_arena_init(&arena, PT_CLASS_WORKSPACE, PT_MEMORY_DEVICE);
    pt_status_t status = make_product(world, &arena, &product);
    if (status == PT_OK)
        status = check_linear(world, &product, &worst);
    tap_ok(status == PT_OK && worst < 1e-5, "large products are right: %.1e", worst);
    tap_ok(world->machine.device->counts[PT_OP_gemm].calls - before == 8,
           "and cut into %lld calls, expected 8",
           (long long)(world->machine.device->counts[PT_OP_gemm].calls - before));
    pt_device_free_arena(world->machine.device, &arena);
}

int main(int argc, char **argv)
{
    return rig_main(&argc, &argv, test_linear);
}
