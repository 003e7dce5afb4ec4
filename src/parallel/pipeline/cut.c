/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/cut.h"
#include "penta/base/alloc.h"

pt_status_t pt_cut_create(int layers, int stages, int chunks, pt_cut_t *out)
{
    pt_status_t status;
    int positions = stages * chunks;

    *out = (pt_cut_t){.stages = stages, .positions = positions};
    PT_REQUIRE(stages >= 1 && chunks >= 1);
    PT_CHECK_COMMON(
        layers >= positions, PT_CONFIG,
        "%d layers cannot be cut into %d stages of %d chunks each: at most %d "
        "stages of %d",
        layers, stages, chunks, layers / chunks, chunks);
    PT_TRY_GOTO(fail, PT_NEW("stages of positions", (size_t)positions, &out->stage));
    PT_TRY_GOTO(
        fail, PT_NEW("layers of positions", (size_t)positions + 1, &out->first_layer));
    for (int p = 0; p < positions; p++) {
        out->stage[p] = p % stages;
        out->first_layer[p + 1] =
            out->first_layer[p] + layers / positions + (p < layers % positions);
    }
    return PT_OK;
fail:
    pt_cut_destroy(out);
    return status;
}

void pt_cut_destroy(pt_cut_t *cut)
{
    pt_free(cut->first_layer);
    pt_free(cut->stage);
    *cut = (pt_cut_t){0};
}

int pt_cut_position_of(const pt_cut_t *cut, int layer)
{
    int position = 0;

    while (layer >= cut->first_layer[position + 1])
        position++;
    return position;
}

int pt_cut_chunk(const pt_cut_t *cut, int position)
{
    int chunk = 0;

    for (int p = 0; p < position; p++)
        chunk += cut->stage[p] == cut->stage[position];
    return chunk;
}

int pt_cut_chunks(const pt_cut_t *cut, int stage)
{
    int chunks = 0;

    for (int p = 0; p < cut->positions; p++)
        chunks += cut->stage[p] == stage;
    return chunks;
}
