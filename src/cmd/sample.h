/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of penta sample: a model that only reads, the choice of the next token, the texts
 * to continue and where they go. */
#ifndef PENTA_CMD_SAMPLE_H
#define PENTA_CMD_SAMPLE_H

#include "penta/comm/comm.h"
#include "penta/config/config.h"

#include <stdio.h>

enum { PT_BYTES = 256 }; /* tokens that stand for a byte */

/* ---- generator.c ------------------------------------------------------------------------- */

typedef struct pt_generator pt_generator_t;

/* The model of a checkpoint on one rank: dimensions and precision as the file's archived
 * configuration has them, device and threads as `config` has them; weights only, their digests
 * compared. It remembers `texts` texts, so that one more byte of a text costs one row of the
 * model. Fails: IO (the file is damaged or not of a model), CONFIG (tokens are not bytes),
 * MEMORY. Caller destroys. */
pt_status_t pt_generator_create(const pt_config_t *config, pt_transport_t *transport,
                                const char *path, int64_t texts, pt_generator_t **out);
void pt_generator_destroy(pt_generator_t *generator);
/* Of the checkpoint. The path is the one given to create. */
const char *pt_generator_path(const pt_generator_t *generator);
int64_t pt_generator_step(const pt_generator_t *generator);
double pt_generator_loss(const pt_generator_t *generator);
/* Tokens the model was trained to look back at: the longest text it takes. */
int64_t pt_generator_window(const pt_generator_t *generator);
int64_t pt_generator_texts(const pt_generator_t *generator);
/* Text `text` (0, …, texts - 1) is now bytes[0, length), 1 <= length <= window; logits of the byte
 * that follows. Fails: NUMERIC. */
pt_status_t pt_generator_begin(pt_generator_t *generator, int64_t text,
                               const uint8_t *bytes, int64_t length,
                               double logits[PT_BYTES]);
/* One byte more for each of some texts shorter than the window, none of them twice; logits of the bytes
 * that follow. What the other texts are changes no more than the rounding of logits. Fails: NUMERIC. */
typedef struct pt_next {
    int64_t text;
    uint8_t byte;
    double *logits; /* [PT_BYTES] */
} pt_next_t;
pt_status_t pt_generator_append(pt_generator_t *generator, const pt_next_t *next,
                                int64_t count);

/* ---- choice.c ----------------------------------------------------------------------------- */

typedef struct pt_choice {
    double temperature; /* 0: the likeliest; of equal ones the lowest */
    int64_t top_k;      /* 0: all */
    double top_p; /* of these the likeliest that together have this share; 0, 1: all */
    uint64_t seed;
    uint32_t prompt, continuation; /* which text this is */
} pt_choice_t;

/* Token `index` of the text, below 2^32: a function of the arguments alone. Finite logits. */
int pt_choose(const pt_choice_t *choice, const double logits[PT_BYTES], int64_t index);

/* ---- prompts.c --------------------------------------------------------------------------- */

typedef struct pt_prompts {
    char *bytes, **line; /* line[count], in `bytes` */
    int64_t count;
} pt_prompts_t;

/* sample.prompt, or the lines of sample.prompt_file; the last may lack its newline. On failure there
 * is nothing to free. Fails: CONFIG (no such file, or without a line), IO, MEMORY. */
pt_status_t pt_prompts_read(const pt_config_t *config, pt_prompts_t *out);
void pt_prompts_free(pt_prompts_t *prompts);

/* ---- output.c ----------------------------------------------------------------------------- */

/* What becomes of a text. One: stdout gets the prompt and the bytes that follow as they
 * come, nothing else. Several: whole texts, in the order of prompts, below a line
 * "==> prompt P, text T <==". json: an array of {"prompt": …, "text": what follows}, bytes that are not
 * UTF-8 replaced by U+FFFD. STOPPED: nobody reads any more, nothing went wrong. Fails: IO (common). */
typedef struct pt_output {
    bool json, several;
    int64_t written; /* texts */
} pt_output_t;

pt_status_t pt_output_bytes(const void *bytes, size_t length);
pt_status_t pt_output_text(pt_output_t *output, const char *prompt, const uint8_t *text,
                           int64_t length, int64_t prompt_number, int64_t text_number);
pt_status_t pt_output_end(const pt_output_t *output);

/* ---- texts.c ------------------------------------------------------------------------------ */

/* Continues each prompt sample.count times, sample.batch texts at a time. STOPPED as above. */
pt_status_t pt_texts_make(const pt_config_t *config, const pt_prompts_t *prompts,
                          pt_generator_t *generator, pt_output_t *output);

#endif
