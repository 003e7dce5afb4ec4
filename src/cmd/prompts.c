/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "src/cmd/sample.h"

#include <string.h>

#define PROMPT_FILE_BYTES ((size_t)1 << 26)

/* Splits the text at newlines, in place. */
static pt_status_t prompts_cut_lines(const pt_config_t *config, size_t length,
                                     pt_prompts_t *out)
{
    char *end = out->bytes + length;

    for (const char *c = out->bytes; c < end; c++)
        out->count += *c == '\n' || c + 1 == end;
    PT_CHECK_COMMON(out->count > 0, PT_CONFIG,
                    "sample.prompt_file %s: it is empty, but each line is a prompt",
                    config->sample.prompt_file);
    PT_TRY(PT_NEW("prompts", (size_t)out->count, &out->line));
    char *start = out->bytes;
    for (int64_t i = 0; i < out->count; i++) {
        out->line[i] = start;
        start += strcspn(start, "\n");
        if (start > out->line[i] && start[-1] == '\r') /* line end of Windows */
            start[-1] = '\0';
        *start++ = '\0';
    }
    return PT_OK;
}

pt_status_t pt_prompts_read(const pt_config_t *config, pt_prompts_t *out)
{
    size_t length;
    pt_status_t status;

    *out = (pt_prompts_t){.count = 0};
    if (config->sample.prompt_file[0]) {
        PT_TRY(pt_file_read(config->sample.prompt_file, "sample.prompt_file",
                            PROMPT_FILE_BYTES, &out->bytes, &length));
        PT_TRY_GOTO(fail, prompts_cut_lines(config, length, out));
        return PT_OK;
    }
    PT_TRY(pt_strdup("prompt", config->sample.prompt, &out->bytes));
    PT_TRY_GOTO(fail, PT_NEW("prompts", 1, &out->line));
    out->line[0] = out->bytes;
    out->count = 1;
    return PT_OK;
fail:
    pt_prompts_free(out);
    return status;
}

void pt_prompts_free(pt_prompts_t *prompts)
{
    pt_free(prompts->line);
    pt_free(prompts->bytes);
    *prompts = (pt_prompts_t){.count = 0};
}
