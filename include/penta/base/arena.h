/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h — where tensors live (layer: base).
 *
 * The same code first plans memory and then places it. An arena without memory only
 * counts; after pt_arena_place it returns the same offsets as addresses. Arenas are
 * stacks (mark/release). A placed arena never grows: taking more than was planned is
 * INTERNAL. Every allocation from an arena has a name. Not thread-safe. */
#ifndef PENTA_ARENA_H
#define PENTA_ARENA_H

#include "penta/base/tensor.h"

/* Classes of memory, as the plan shows them. COMMUNICATION holds the buffers of
 * transfers and their host staging; STAGING holds host copies of batches and sums on
 * their way to or from the device; SNAPSHOT holds host copies for checkpoints; BATCH
 * holds the tokens of a step. */
typedef enum pt_memory_class {
#define PT_MEMORY_CLASS(name, text) PT_CLASS_##name,
#include "penta/base/memory_class.def"
#undef PT_MEMORY_CLASS
    PT_CLASS_COUNT
} pt_memory_class_t;

const char *pt_memory_class_name(pt_memory_class_t c); /* "parameters" */

enum { PT_ARENA_ALIGN = 256 }; /* bytes; every allocation starts at a multiple */

typedef struct pt_arena {
    pt_memory_class_t cls;
    pt_memory_t memory;
    char *base;                   /* NULL: planning */
    int64_t capacity, used, peak; /* bytes */
} pt_arena_t;

void pt_arena_init(pt_arena_t *arena, pt_memory_class_t cls, pt_memory_t memory);
/* Gives the arena `capacity` bytes of memory (borrowed) and empties it for the place
 * pass. */
void pt_arena_place(pt_arena_t *arena, void *base, int64_t capacity);
/* Takes `bytes` bytes. `*out` is NULL while planning. Local. Fails: MEMORY if the sum
 * overflows int64, INTERNAL beyond the capacity. */
pt_status_t pt_arena_take(pt_arena_t *arena, const char *name, int64_t bytes,
                          void **out);
/* Takes a dense tensor. Its memory kind is that of the arena. */
pt_status_t pt_arena_tensor(pt_arena_t *arena, const char *name, pt_dtype_t dtype,
                            int ndim, const int64_t *shape, pt_tensor_t *out);
int64_t pt_arena_mark(const pt_arena_t *arena);
void pt_arena_release(pt_arena_t *arena, int64_t mark);

#endif
