/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h — host memory for structures (layer: base). Tensors live in arenas (arena.h).
 *
 * Every allocation has a name. While sealed (inside a training step), pt_alloc fails: what a
 * step needs is placed at set-up. This is the only file family that calls malloc. */
#ifndef PENTA_ALLOC_H
#define PENTA_ALLOC_H

#include "penta/base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Zeroed; caller frees with pt_free. count*size is checked for overflow. Fails: MEMORY (local),
 * INTERNAL when sealed. `*out` is NULL on failure. count 0 gives a valid pointer. */
pt_status_t pt_alloc(const char *name, size_t count, size_t size, void **out);
#define PT_NEW(name, count, out)                                                       \
    pt_alloc((name), (count), sizeof(**(out)), (void **)(out))
/* Keeps the contents, zeroes what is new. `*pointer` may be NULL; unchanged on failure. */
pt_status_t pt_realloc(const char *name, size_t old_count, size_t count, size_t size,
                       void **pointer);
pt_status_t pt_strdup(const char *name, const char *text, char **out);
void pt_free(void *pointer); /* NULL is fine */
/* Nested: a counter. */
void pt_alloc_seal(void);
void pt_alloc_unseal(void);
/* Of a process that is about to end: memory may be asked for again, whatever is under way. */
void pt_alloc_break_seal(void);
int64_t pt_alloc_live_bytes(void);

#endif
