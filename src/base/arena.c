/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/arena.h"

#include "src/base/private.h"

#include <string.h>

const char *pt_memory_class_name(pt_memory_class_t c)
{
    static const char *const names[PT_CLASS_COUNT] = {
#define PT_MEMORY_CLASS(name, text) text,
#include "penta/base/memory_class.def"
#undef PT_MEMORY_CLASS
    };

    return (unsigned)c < PT_CLASS_COUNT ? names[c] : "unknown memory class";
}

void pt_arena_init(pt_arena_t *arena, pt_memory_class_t cls, pt_memory_t memory)
{
    *arena = (pt_arena_t){.cls = cls, .memory = memory};
}

void pt_arena_place(pt_arena_t *arena, void *base, int64_t capacity)
{
    arena->base = base;
    arena->capacity = capacity;
    arena->used = arena->peak = 0;
}

pt_status_t pt_arena_take(pt_arena_t *arena, const char *name, int64_t bytes, void **out)
{
    const char *cls = pt_memory_class_name(arena->cls);
    int64_t start, end;

    *out = NULL;
    PT_CHECK(bytes >= 0, PT_INTERNAL, "%s asks for %lld bytes of %s", name,
             (long long)bytes, cls);
    PT_CHECK(!__builtin_add_overflow(arena->used, PT_ARENA_ALIGN - 1, &start) &&
                 !__builtin_add_overflow(start & -(int64_t)PT_ARENA_ALIGN, bytes, &end),
             PT_MEMORY, "%s: %lld bytes more of %s than 64 bits can count", name,
             (long long)bytes, cls);
    start &= -(int64_t)PT_ARENA_ALIGN;
    PT_CHECK(!arena->base || end <= arena->capacity, PT_INTERNAL,
             "%s: %lld bytes beyond the planned %s: %lld of %lld bytes in use", name,
             (long long)bytes, cls, (long long)arena->used, (long long)arena->capacity);
    arena->used = end;
    if (arena->peak < end)
        arena->peak = end;
    if (arena->base)
        *out = arena->base + start;
    return PT_OK;
}

pt_status_t pt_arena_tensor(pt_arena_t *arena, const char *name, pt_dtype_t dtype,
                            int ndim, const int64_t *shape, pt_tensor_t *out)
{
    int64_t bytes;
    void *data;

    *out = (pt_tensor_t){0};
    PT_REQUIRE(ndim >= 1 && ndim <= PT_MAX_DIMS);
    PT_REQUIRE((unsigned)dtype < PT_DTYPE_COUNT);
    bytes = (int64_t)pt_dtype_size(dtype);
    for (int i = 0; i < ndim; i++) {
        PT_CHECK(shape[i] >= 0, PT_INTERNAL, "%s: dimension %d is %lld", name, i,
                 (long long)shape[i]);
        PT_CHECK(!__builtin_mul_overflow(bytes, shape[i], &bytes), PT_MEMORY,
                 "%s: a tensor of %s larger than 64 bits can count", name,
                 pt_memory_class_name(arena->cls));
    }
    PT_TRY(pt_arena_take(arena, name, bytes, &data));
    *out = pt_tensor_dense(data, dtype, arena->memory, ndim, shape);
    return PT_OK;
}

int64_t pt_arena_mark(const pt_arena_t *arena)
{
    return arena->used;
}

void pt_arena_release(pt_arena_t *arena, int64_t mark)
{
#ifdef PT_DEBUG
    /* All bits set is a NaN in every floating-point type, so that use after release
     * shows. */
    if (arena->base && arena->memory == PT_MEMORY_HOST && mark < arena->used)
        memset(arena->base + mark, 0xFF, (size_t)(arena->used - mark));
#endif
    arena->used = mark;
}
