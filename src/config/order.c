/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the axes, "tensor,context,pipeline,data". */
#include "src/config/private.h"

#include <string.h>

static bool order_find_axis(const char *name, size_t length, pt_axis_t *out)
{
    for (*out = PT_AXIS_TENSOR; *out <= PT_AXIS_DATA; *out = (pt_axis_t)(*out + 1))
        if (strlen(pt_axis_name(*out)) == length &&
            strncmp(name, pt_axis_name(*out), length) == 0)
            return true;
    return false;
}

bool pt_order_read(const char *text, pt_axis_t order[PT_CONFIG_AXES])
{
    pt_axis_t read[PT_CONFIG_AXES];
    unsigned seen = 0;

    for (int i = 0; i < PT_CONFIG_AXES; i++) {
        size_t length = strcspn(text, ",");

        if (!order_find_axis(text, length, &read[i]) || (seen >> read[i] & 1))
            return false;
        seen |= 1u << read[i];
        text += length;
        if (*text != (i + 1 < PT_CONFIG_AXES ? ',' : '\0'))
            return false;
        text++;
    }
    memcpy(order, read, sizeof read);
    return true;
}

void pt_order_text(const pt_axis_t order[PT_CONFIG_AXES], char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    for (int i = 0; i < PT_CONFIG_AXES; i++)
        pt_text_add(&text, "%s%s", i ? "," : "", pt_axis_name(order[i]));
}
