/* TEST timeout=20 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/base/arena.h"

#include <string.h>

static _Alignas(PT_ARENA_ALIGN) char memory[1 << 16];

static int failed_with(pt_status_t got, pt_status_t want, const char *text)
{
    int ok = got == want && strstr(pt_error_last()->text, text) != NULL;

    if (!ok)
        tap_note("%s: %s", pt_status_name(got), pt_error_last()->text);
    pt_error_clear();
    return ok;
}

enum { TAKES = 40 };

/* One pass over the same uneven requests, with marks; `out` gets what was handed
 * out. */
static pt_status_t pass(pt_arena_t *arena, void *out[TAKES])
{
    int64_t mark = pt_arena_mark(arena);

    for (int i = 0; i < TAKES; i++) {
        if (i % 7 == 3)
            mark = pt_arena_mark(arena);
        PT_TRY(pt_arena_take(arena, "piece", (i * 37) % 900, &out[i]));
        if (out[i])
            memset(out[i], i, (size_t)((i * 37) % 900));
        if (i % 7 == 6)
            pt_arena_release(arena, mark);
    }
    return PT_OK;
}

static void test_passes(void)
{
    pt_arena_t plan, place;
    void *nothing[TAKES], *placed[TAKES];
    int all_null = 1, aligned = 1;

    pt_arena_init(&plan, PT_CLASS_ACTIVATIONS, PT_MEMORY_HOST);
    tap_ok(pass(&plan, nothing) == PT_OK, "planning");
    place = plan;
    pt_arena_place(&place, memory, plan.peak);
    tap_ok(place.used == 0 && place.peak == 0, "placing empties");
    tap_ok(pass(&place, placed) == PT_OK, "the planned peak is enough");
    for (int i = 0; i < TAKES; i++) {
        all_null = all_null && !nothing[i];
        aligned = aligned && ((char *)placed[i] - memory) % PT_ARENA_ALIGN == 0;
    }
    tap_ok(all_null, "planning hands out nothing");
    tap_ok(aligned, "takes are aligned");
    tap_ok(plan.peak == place.peak && plan.used == place.used,
           "both passes count alike");
    pt_arena_place(&place, memory, plan.peak - 1);
    tap_ok(failed_with(pass(&place, placed), PT_INTERNAL, "piece"),
           "one byte less is not enough, and the piece is named");
}

static void test_stack(void)
{
    pt_arena_t arena;
    void *a, *b, *c;

    pt_arena_init(&arena, PT_CLASS_WORKSPACE, PT_MEMORY_HOST);
    pt_arena_place(&arena, memory, 1024);
    pt_arena_take(&arena, "a", 1, &a);
    int64_t mark = pt_arena_mark(&arena);
    pt_arena_take(&arena, "b", 300, &b);
    memset(b, 1, 300);
    tap_ok((char *)a == memory && (char *)b == memory + 256 && arena.used == 556,
           "offsets by hand");
    pt_arena_release(&arena, mark);
#ifdef PT_DEBUG
    tap_ok(*(unsigned char *)b == 0xFF && ((unsigned char *)b)[299] == 0xFF,
           "released memory is poisoned");
#endif
    tap_ok(arena.used == 1 && arena.peak == 556, "released, peak kept");
    tap_ok(pt_arena_take(&arena, "c", 768, &c) == PT_OK && c == b,
           "room is used again");
    tap_ok(failed_with(pt_arena_take(&arena, "d", 1, &c), PT_INTERNAL, "workspace") &&
               !c,
           "full to the last byte");
}

static void test_limits(void)
{
    pt_arena_t arena;
    pt_tensor_t x;
    void *p;

    pt_arena_init(&arena, PT_CLASS_PARAMETERS, PT_MEMORY_DEVICE);
    tap_ok(failed_with(pt_arena_take(&arena, "minus", -1, &p), PT_INTERNAL, "minus"),
           "negative bytes");
    tap_ok(pt_arena_take(&arena, "most", INT64_MAX - 10, &p) == PT_OK,
           "a very large plan");
    tap_ok(failed_with(pt_arena_take(&arena, "more", 1, &p), PT_MEMORY, "more"),
           "that cannot grow");
    pt_arena_init(&arena, PT_CLASS_PARAMETERS, PT_MEMORY_DEVICE);
    tap_ok(pt_arena_take(&arena, "some", 1, &p) == PT_OK &&
               failed_with(pt_arena_take(&arena, "rest", INT64_MAX - 100, &p),
                           PT_MEMORY, "rest"),
           "bytes that overflow");
    tap_ok(failed_with(pt_arena_tensor(&arena, "vast", PT_F32, 2,
                                       (const int64_t[]){1ll << 40, 1ll << 30}, &x),
                       PT_MEMORY, "vast"),
           "a shape that overflows");
    tap_ok(failed_with(
               pt_arena_tensor(&arena, "odd", PT_F32, 1, (const int64_t[]){-4}, &x),
               PT_INTERNAL, "odd"),
           "a negative dimension");
    tap_ok(failed_with(pt_arena_tensor(&arena, "flat", PT_F32, 0, NULL, &x),
                       PT_INTERNAL, "ndim"),
           "no dimension");
}

static void test_tensor(void)
{
    pt_arena_t arena;
    pt_tensor_t x;
    const int64_t shape[] = {2, 3, 4, 5};

    pt_arena_init(&arena, PT_CLASS_PARAMETERS, PT_MEMORY_DEVICE);
    tap_ok(pt_arena_tensor(&arena, "w", PT_BF16, 4, shape, &x) == PT_OK && !x.data &&
               x.memory == PT_MEMORY_DEVICE && x.ndim == 4 && arena.used == 240,
           "a planned tensor has shape and no data");
    pt_arena_place(&arena, memory, arena.peak);
    tap_ok(pt_arena_tensor(&arena, "w", PT_BF16, 4, shape, &x) == PT_OK &&
               x.data == memory && x.stride[0] == 60 && x.stride[3] == 1,
           "a placed one has both");
    tap_ok(strcmp(pt_memory_class_name(PT_CLASS_SNAPSHOT), "snapshot") == 0,
           "classes have names");
}

int main(void)
{
    test_passes();
    test_stack();
    test_limits();
    test_tensor();
    return tap_done();
}
