/* SPDX-License-Identifier: Apache-2.0 */
/* Does a file hold the weights of this model? */
#include "penta/base/text.h"
#include "src/state/private.h"

#include <string.h>

#define ADVICE "give the model of the checkpoint (penta inspect FILE --config)"

/* "256x96" */
static const char *check_shape_text(const pt_checkpoint_tensor_t *x, char *buffer,
                                    size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    for (int d = 0; d < x->ndim; d++)
        pt_text_add(&text, "%s%lld", d ? "x" : "", (long long)x->shape[d]);
    return buffer;
}

static bool check_has_part(const pt_param_table_t *table, const char *name)
{
    for (int p = 0; p < table->count; p++)
        for (int i = 0; i < table->params[p].parts; i++)
            if (strcmp(table->params[p].part[i].name, name) == 0)
                return true;
    return false;
}

pt_status_t pt_state_check_model(const pt_param_table_t *table,
                                 const pt_checkpoint_reader_t *reader, const char *path)
{
    char there[80], here[80];
    pt_state_mismatch_t first;

    PT_TRY(pt_state_match(table, reader, PT_STATE_WEIGHT, NULL, &first));
    PT_CHECK_COMMON(first.dataset < 0 || first.found, PT_CONFIG,
                    "%s holds weights of another model: there is no /model/%s in "
                    "it: " ADVICE,
                    path, first.wanted.name);
    PT_CHECK_COMMON(first.dataset < 0, PT_CONFIG,
                    "%s holds weights of another model: /model/%s is %s there, but %s "
                    "by model.*: " ADVICE,
                    path, first.wanted.name,
                    check_shape_text(first.found, there, sizeof there),
                    check_shape_text(&first.wanted, here, sizeof here));
    for (int i = 0; i < pt_checkpoint_tensors(reader); i++) {
        const pt_checkpoint_tensor_t *x = pt_checkpoint_tensor(reader, i);
        PT_CHECK_COMMON(!pt_checkpoint_is_weight(x) || check_has_part(table, x->name),
                        PT_CONFIG,
                        "%s holds weights of another model: it has /model/%s, which "
                        "the model of this run has not: " ADVICE,
                        path, x->name);
    }
    return PT_OK;
}
