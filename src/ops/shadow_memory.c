/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the shadow device: only work that runs can access its pages. */
#include "penta/base/alloc.h"
#include "src/ops/shadow.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pt_status_t shadow_protect(shadow_t *shadow, bool open)
{
    if (shadow->open == open)
        return PT_OK;
    shadow->open = open;
    for (shadow_block_t *b = shadow->blocks; b; b = b->next)
        if (b->memory == PT_MEMORY_DEVICE && b->map_bytes > 0)
            PT_CHECK(mprotect(b->map, b->map_bytes,
                              open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
                     PT_INTERNAL, "shadow: cannot change the protection of %zu bytes",
                     b->map_bytes);
    return PT_OK;
}

pt_status_t shadow_alloc(pt_device_t *device, pt_memory_t memory, int64_t bytes,
                         void **out)
{
    shadow_t *shadow = device->state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used =
        ((size_t)bytes + PT_ARENA_ALIGN - 1) / PT_ARENA_ALIGN * PT_ARENA_ALIGN;
    size_t map_bytes = (used + page - 1) / page * page;
    shadow_block_t *block = NULL;
    char *map =
        mmap(NULL, map_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return PT_MEMORY;
    if (map_bytes > 0 && mprotect(map, map_bytes, PROT_READ | PROT_WRITE) != 0)
        goto unmap;
    memset(map, POISON, map_bytes);
    if (map_bytes > 0 && memory == PT_MEMORY_DEVICE &&
        mprotect(map, map_bytes, PROT_NONE) != 0)
        goto unmap;
    if (PT_NEW("shadow block", 1, &block) != PT_OK)
        goto unmap;
    *out = map + (map_bytes - used);
    *block = (shadow_block_t){.next = shadow->blocks,
                              .map = map,
                              .map_bytes = map_bytes,
                              .pointer = *out,
                              .memory = memory};
    shadow->blocks = block;
    return PT_OK;
unmap:
    (void)munmap(map, map_bytes + page);
    return PT_MEMORY;
}

void shadow_free(pt_device_t *device, pt_memory_t memory, void *pointer, int64_t bytes)
{
    shadow_t *shadow = device->state;

    (void)memory, (void)bytes;
    for (shadow_block_t **at = &shadow->blocks; *at; at = &(*at)->next) {
        shadow_block_t *b = *at;

        if (b->pointer != pointer)
            continue;
        *at = b->next;
        b->next = shadow->freed;
        shadow->freed = b;
        if (b->map_bytes > 0)
            (void)mmap(b->map, b->map_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        return;
    }
}

void shadow_unmap(shadow_block_t *blocks)
{
    for (shadow_block_t *b = blocks, *next; b; b = next) {
        next = b->next;
        (void)munmap(b->map, b->map_bytes + (size_t)sysconf(_SC_PAGESIZE));
        pt_free(b);
    }
}
