/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Header of every block: its size is needed when the block is freed. */
typedef union block {
    size_t bytes;
    max_align_t align;
} block_t;

static atomic_int sealed;
static _Atomic int64_t live_bytes;

static pt_status_t alloc_block_bytes(const char *name, size_t count, size_t size,
                                     size_t *out)
{
    size_t bytes, whole;

    PT_CHECK(atomic_load(&sealed) == 0, PT_INTERNAL,
             "memory for %s (%zu x %zu bytes) asked inside a step; place it at set-up",
             name, count, size);
    PT_CHECK(!__builtin_mul_overflow(count, size, &bytes) &&
                 !__builtin_add_overflow(bytes, sizeof(block_t), &whole) &&
                 whole <= PTRDIFF_MAX,
             PT_MEMORY,
             "memory for %s: %zu x %zu bytes is more than an address space holds", name,
             count, size);
    *out = bytes;
    return PT_OK;
}

static pt_status_t alloc_no_memory(const char *name, size_t bytes)
{
    return PT_FAIL(
        PT_MEMORY,
        "no memory for %s: %zu bytes asked beside %lld in use; use fewer ranks "
        "on this node or a smaller model or batch, or raise the limits of a process "
        "(ulimit -v, -d)",
        name, bytes, (long long)atomic_load(&live_bytes));
}

pt_status_t pt_alloc(const char *name, size_t count, size_t size, void **out)
{
    size_t bytes;
    block_t *block;

    *out = NULL;
    PT_TRY(alloc_block_bytes(name, count, size, &bytes));
    block = calloc(1, sizeof *block + bytes);
    if (!block)
        return alloc_no_memory(name, bytes);
    block->bytes = bytes;
    atomic_fetch_add(&live_bytes, (int64_t)bytes);
    *out = block + 1;
    return PT_OK;
}

pt_status_t pt_realloc(const char *name, size_t old_count, size_t count, size_t size,
                       void **pointer)
{
    size_t bytes, old_bytes = old_count * size;
    block_t *block;

    if (!*pointer)
        return pt_alloc(name, count, size, pointer);
    PT_TRY(alloc_block_bytes(name, count, size, &bytes));
    block = (block_t *)*pointer - 1;
    PT_REQUIRE(block->bytes == old_bytes);
    block = realloc(block, sizeof *block + bytes);
    if (!block)
        return alloc_no_memory(name, bytes);
    block->bytes = bytes;
    if (bytes > old_bytes)
        memset((char *)(block + 1) + old_bytes, 0, bytes - old_bytes);
    atomic_fetch_add(&live_bytes, (int64_t)bytes - (int64_t)old_bytes);
    *pointer = block + 1;
    return PT_OK;
}

pt_status_t pt_strdup(const char *name, const char *text, char **out)
{
    size_t size = strlen(text) + 1;

    PT_TRY(PT_NEW(name, size, out));
    memcpy(*out, text, size);
    return PT_OK;
}

void pt_free(void *pointer)
{
    block_t *block;

    if (!pointer)
        return;
    block = (block_t *)pointer - 1;
    atomic_fetch_sub(&live_bytes, (int64_t)block->bytes);
    free(block);
}

void pt_alloc_seal(void)
{
    atomic_fetch_add(&sealed, 1);
}

void pt_alloc_unseal(void)
{
    atomic_fetch_sub(&sealed, 1);
}

void pt_alloc_break_seal(void)
{
    atomic_store(&sealed, 0);
}

int64_t pt_alloc_live_bytes(void)
{
    return atomic_load(&live_bytes);
}
