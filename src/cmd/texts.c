/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "src/cmd/sample.h"

#include <string.h>
#include <unistd.h>

/* A text at work. */
typedef struct text {
    int64_t prompt, number;
    uint8_t *context; /* what the model looks back at: at most a window */
    int64_t length;
    uint8_t *made;  /* the bytes chosen */
    double *logits; /* [PT_BYTES] of the byte that follows */
} text_t;

typedef struct maker {
    const pt_config_t *config;
    const pt_prompts_t *prompts;
    pt_generator_t *generator;
    pt_output_t *output;
    bool streams; /* one text, whose bytes go out as they come */
    int64_t window, texts, at_once;
    text_t *text; /* [at_once] */
    uint8_t *contexts, *made;
    double *logits;
    pt_next_t *next;
} maker_t;

/* ---- a text ------------------------------------------------------------------------------ */

static pt_status_t texts_begin(maker_t *maker, int64_t slot, int64_t index)
{
    text_t *text = &maker->text[slot];

    text->prompt = index / maker->config->sample.count;
    text->number = index % maker->config->sample.count;
    const char *prompt = maker->prompts->line[text->prompt];
    if (maker->streams)
        PT_TRY(pt_output_bytes(prompt, strlen(prompt)));
    if (!prompt[0])
        prompt = "\n";
    int64_t length = (int64_t)strlen(prompt);
    text->length = length < maker->window ? length : maker->window;
    memcpy(text->context, prompt + length - text->length, (size_t)text->length);
    return pt_generator_begin(maker->generator, slot, text->context, text->length,
                              text->logits);
}

/* A full window is cut to the newer half of itself, so that the model reads whole texts
 * seldom. True if it was. */
static bool texts_add(maker_t *maker, text_t *text, uint8_t byte)
{
    int64_t kept = maker->window > 1 ? maker->window / 2 - 1 : 0;
    bool full = text->length == maker->window;

    if (full) {
        memmove(text->context, text->context + text->length - kept, (size_t)kept);
        text->length = kept;
    }
    text->context[text->length++] = byte;
    return full;
}

static pt_status_t texts_choose(maker_t *maker, text_t *text, int64_t index)
{
    const pt_config_t *config = maker->config;
    pt_choice_t choice = {.temperature = config->sample.temperature,
                          .top_k = config->sample.top_k,
                          .top_p = config->sample.top_p,
                          .seed = (uint64_t)config->sample.seed,
                          .prompt = (uint32_t)text->prompt,
                          .continuation = (uint32_t)text->number};

    text->made[index] = (uint8_t)pt_choose(&choice, text->logits, index);
    return maker->streams ? pt_output_bytes(&text->made[index], 1) : PT_OK;
}

/* ---- all --------------------------------------------------------------------------------- */

/* Byte `index` of the first `count` texts is read. */
static pt_status_t texts_read_bytes(maker_t *maker, int64_t count, int64_t index)
{
    int64_t waiting = 0;

    for (int64_t slot = 0; slot < count; slot++) {
        text_t *text = &maker->text[slot];
        uint8_t byte = text->made[index];

        if (texts_add(maker, text, byte))
            PT_TRY(pt_generator_begin(maker->generator, slot, text->context,
                                      text->length, text->logits));
        else
            maker->next[waiting++] = (pt_next_t){slot, byte, text->logits};
    }
    return waiting > 0 ? pt_generator_append(maker->generator, maker->next, waiting)
                       : PT_OK;
}

static pt_status_t texts_put(maker_t *maker, const text_t *text)
{
    const char *prompt = maker->prompts->line[text->prompt];

    if (maker->streams)
        return isatty(STDOUT_FILENO) ? pt_output_bytes("\n", 1) : PT_OK;
    return pt_output_text(maker->output, prompt, text->made,
                          maker->config->sample.tokens, text->prompt + 1,
                          text->number + 1);
}

/* Texts [first, first + count). */
static pt_status_t texts_make_some(maker_t *maker, int64_t first, int64_t count)
{
    int64_t tokens = maker->config->sample.tokens;

    for (int64_t slot = 0; slot < count; slot++)
        PT_TRY(texts_begin(maker, slot, first + slot));
    for (int64_t index = 0; index < tokens; index++) {
        for (int64_t slot = 0; slot < count; slot++)
            PT_TRY(texts_choose(maker, &maker->text[slot], index));
        if (index + 1 < tokens)
            PT_TRY(texts_read_bytes(maker, count, index));
    }
    for (int64_t slot = 0; slot < count; slot++)
        PT_TRY(texts_put(maker, &maker->text[slot]));
    return PT_OK;
}

static pt_status_t texts_prepare(maker_t *maker)
{
    size_t at_once = (size_t)maker->at_once, window = (size_t)maker->window;
    size_t tokens = (size_t)maker->config->sample.tokens;

    PT_TRY(PT_NEW("texts", at_once, &maker->text));
    PT_TRY(pt_alloc("contexts", at_once, window, (void **)&maker->contexts));
    PT_TRY(pt_alloc("texts made", at_once, tokens, (void **)&maker->made));
    PT_TRY(PT_NEW("logits", at_once * PT_BYTES, &maker->logits));
    PT_TRY(PT_NEW("next bytes", at_once, &maker->next));
    for (size_t slot = 0; slot < at_once; slot++) {
        maker->text[slot].context = maker->contexts + slot * window;
        maker->text[slot].made = maker->made + slot * tokens;
        maker->text[slot].logits = maker->logits + slot * PT_BYTES;
    }
    return PT_OK;
}

pt_status_t pt_texts_make(const pt_config_t *config, const pt_prompts_t *prompts,
                          pt_generator_t *generator, pt_output_t *output)
{
    maker_t maker = {.config = config,
                     .prompts = prompts,
                     .generator = generator,
                     .output = output,
                     .streams = !output->json && !output->several,
                     .window = pt_generator_window(generator),
                     .texts = prompts->count * config->sample.count,
                     .at_once = pt_generator_texts(generator)};
    pt_status_t status;

    PT_TRY_GOTO(done, texts_prepare(&maker));
    for (int64_t first = 0; first < maker.texts; first += maker.at_once) {
        int64_t left = maker.texts - first;

        PT_TRY_GOTO(done, texts_make_some(&maker, first,
                                          left < maker.at_once ? left : maker.at_once));
    }
    PT_TRY_GOTO(done, pt_output_end(output));
done:
    pt_free(maker.next);
    pt_free(maker.logits);
    pt_free(maker.made);
    pt_free(maker.contexts);
    pt_free(maker.text);
    return status;
}
