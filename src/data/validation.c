/* SPDX-License-Identifier: Apache-2.0 */
#include "src/data/private.h"

#include "penta/base/alloc.h"

#include <string.h>

pt_status_t pt_validation_open(const pt_config_t *config, int64_t vocab, bool check,
                               pt_validation_t **out, int *count)
{
    pt_status_t status;
    pt_validation_t *list = NULL;
    char name[PT_CONFIG_TEXT];
    int items = pt_config_items(config, PT_OPTION_data_validation), opened = 0;

    *out = NULL;
    *count = 0;
    if (items == 0)
        return PT_OK;
    PT_TRY(PT_NEW("corpora to validate on", items, &list));
    for (; opened < items; opened++) {
        (void)pt_config_validation(config, opened, name);
        memcpy(list[opened].name, name, strlen(name) + 1);
        PT_TRY_GOTO(close, pt_corpus_open_validation(config, vocab, opened, check,
                                                     &list[opened].corpus));
        PT_TRY_GOTO(close, pt_corpus_hash(list[opened].corpus, &list[opened].hash));
    }
    *out = list;
    *count = items;
    return PT_OK;
close:
    pt_validation_close(list, items);
    return status;
}

void pt_validation_close(pt_validation_t *list, int count)
{
    for (int i = 0; i < count; i++)
        pt_corpus_close(list[i].corpus);
    pt_free(list);
}
