/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h — where tensors live (layer: base).
 *
 * Memory is planned first and then placed by the same code: an arena without memory only
 * counts; after pt_arena_place it hands out the same offsets for real. Arenas are stacks
 * (mark/release). A placed arena never grows: a take beyond what was planned is INTERNAL. Every
 * take has a name. Not thread-safe. */
#ifndef PENTA_ARENA_H
#define PENTA_ARENA_H

#include "penta/base/tensor.h"

/* Classes of memory, as users see them in the plan. COMMUNICATION holds wire buffers and
 * host staging; SNAPSHOT host copies for checkpoints; BATCH is the tokens of a step. */
typedef enum pt_memory_class {
#define PT_MEMORY_CLASS(name, text) PT_CLASS_##name,
#include "penta/base/memory_class.def"
#undef PT_MEMORY_CLASS
    PT_CLASS_COUNT
} pt_memory_class_t;

const char *pt_memory_class_name(pt_memory_class_t c); /* "parameters" */

enum { PT_ARENA_ALIGN = 256 }; /* bytes; every take starts on a multiple */

typedef struct pt_arena {
    pt_memory_class_t cls;
    pt_memory_t memory;
    char *base;                   /* NULL: planning */
    int64_t capacity, used, peak; /* bytes */
} pt_arena_t;

void pt_arena_init(pt_arena_t *arena, pt_memory_class_t cls, pt_memory_t memory);
/* Gives it memory of `capacity` bytes (borrowed) and empties it: the place pass begins. */
void pt_arena_place(pt_arena_t *arena, void *base, int64_t capacity);
/* Local. Fails: MEMORY on overflow of int64, INTERNAL beyond capacity. `*out` NULL while
 * planning. */
pt_status_t pt_arena_take(pt_arena_t *arena, const char *name, int64_t bytes,
                          void **out);
/* A dense tensor of the arena's memory kind. */
pt_status_t pt_arena_tensor(pt_arena_t *arena, const char *name, pt_dtype_t dtype,
                            int ndim, const int64_t *shape, pt_tensor_t *out);
int64_t pt_arena_mark(const pt_arena_t *arena);
void pt_arena_release(pt_arena_t *arena, int64_t mark);

#endif
