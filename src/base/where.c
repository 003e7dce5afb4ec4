/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/where.h"

#include "penta/base/text.h"

const char *pt_phase_text(pt_phase_t phase)
{
    static const char *const texts[PT_PHASE_COUNT] = {
#define PT_PHASE(name, text) text,
#include "penta/base/phase.def"
#undef PT_PHASE
    };

    return (unsigned)phase < PT_PHASE_COUNT ? texts[phase] : "unknown phase";
}

const char *pt_where_text(const pt_where_t *where, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    if (where->step >= 0)
        pt_text_add(&text, "step %lld, ", (long long)where->step);
    pt_text_add(&text, "%s", pt_phase_text(where->phase));
    if (where->layer >= 0)
        pt_text_add(&text, ", layer %d", where->layer);
    if (where->chunk >= 0)
        pt_text_add(&text, ", chunk %d", where->chunk);
    if (where->micro_batch >= 0)
        pt_text_add(&text, ", micro-batch %d", where->micro_batch);
    if (where->site)
        pt_text_add(&text, ", %s", where->site);
    return buffer;
}
