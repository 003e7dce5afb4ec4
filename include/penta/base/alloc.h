/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h — host memory for structures (layer: base). Tensors live in arenas (arena.h).
 *
 * Every allocation has a name. While the allocator is sealed (inside a training step),
 * pt_alloc fails: set-up allocates everything that a step needs. No other file calls
 * malloc. */
#ifndef PENTA_ALLOC_H
#define PENTA_ALLOC_H

#include "penta/base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Allocates count*size zeroed bytes.
 *   name   [in]  names the allocation in messages
 *   count  [in]  0 also gives a valid pointer
 *   out    [out] the caller frees it with pt_free; NULL on failure
 * Fails: MEMORY (local; also if count*size overflows), INTERNAL if sealed. */
pt_status_t pt_alloc(const char *name, size_t count, size_t size, void **out);
#define PT_NEW(name, count, out)                                                       \
    pt_alloc((name), (count), sizeof(**(out)), (void **)(out))
/* Resizes a block, keeps its contents and zeroes the new part. `*pointer` may be NULL;
 * it is unchanged on failure. */
pt_status_t pt_realloc(const char *name, size_t old_count, size_t count, size_t size,
                       void **pointer);
pt_status_t pt_strdup(const char *name, const char *text, char **out);
void pt_free(void *pointer); /* NULL is allowed */
/* Seals nest: a counter. */
void pt_alloc_seal(void);
void pt_alloc_unseal(void);
/* Allows allocations again, however often sealed, in a process that is about to end. */
void pt_alloc_break_seal(void);
int64_t pt_alloc_live_bytes(void);

#endif
