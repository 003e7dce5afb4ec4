/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h — parts of `penta sample`: the model, the choice of the next token, prompts
 * and output (private to cmd). */
#ifndef PENTA_CMD_SAMPLE_H
#define PENTA_CMD_SAMPLE_H

#include "penta/comm/comm.h"
#include "penta/config/config.h"

#include <stdio.h>

enum { PT_BYTES = 256 }; /* tokens are bytes */

/* ---- generator.c ----------------------------------------------------------------- */

typedef struct pt_generator pt_generator_t;

/* Loads the model of a checkpoint on one rank. Dimensions and precision come from the
 * archived configuration of the file, device and threads from `config`. Reads only the
 * weights and verifies their digests. Keys and values of `texts` texts are cached, so
 * another byte of a text costs one row of the model.
 * path: checkpoint; copied.
 * texts: texts generated at the same time.
 * out: [out] destroyed by the caller.
 * Fails: IO (the file is damaged or has no model), CONFIG (tokens are not bytes),
 * MEMORY. */
pt_status_t pt_generator_create(const pt_config_t *config, pt_transport_t *transport,
                                const char *path, int64_t texts, pt_generator_t **out);
void pt_generator_destroy(pt_generator_t *generator);
/* Path as given to create, step and loss of the checkpoint. */
const char *pt_generator_path(const pt_generator_t *generator);
int64_t pt_generator_step(const pt_generator_t *generator);
double pt_generator_loss(const pt_generator_t *generator);
/* Longest text the model accepts: the tokens of a training sequence. */
int64_t pt_generator_window(const pt_generator_t *generator);
int64_t pt_generator_texts(const pt_generator_t *generator);
/* Begins a text and computes the logits of its next byte.
 * text: 0 to texts - 1.
 * bytes, length: the text so far, 1 <= length <= window.
 * logits: [out] of the byte that follows.
 * Fails: NUMERIC. */
pt_status_t pt_generator_begin(pt_generator_t *generator, int64_t text,
                               const uint8_t *bytes, int64_t length,
                               double logits[PT_BYTES]);
/* Appends a byte to each of `count` different texts shorter than the window, and
 * computes the logits of the bytes that follow. The other texts change only the
 * rounding of logits.
 * Fails: NUMERIC. */
typedef struct pt_next {
    int64_t text;
    uint8_t byte;
    double *logits; /* [PT_BYTES] */
} pt_next_t;
pt_status_t pt_generator_append(pt_generator_t *generator, const pt_next_t *next,
                                int64_t count);

/* ---- choice.c -------------------------------------------------------------------- */

typedef struct pt_choice {
    double temperature; /* 0: the likeliest token; of equal ones the lowest */
    int64_t top_k;      /* 0: all */
    double top_p; /* choose among the likeliest with this total share; 0, 1: all */
    uint64_t seed;
    uint32_t prompt, continuation; /* identify the text */
} pt_choice_t;

/* Chooses token `index` of a text from finite logits. Depends only on the arguments.
 * index: below 2^32. */
int pt_choose(const pt_choice_t *choice, const double logits[PT_BYTES], int64_t index);

/* ---- prompts.c ------------------------------------------------------------------- */

typedef struct pt_prompts {
    char *bytes, **line; /* line[count] points into `bytes` */
    int64_t count;
} pt_prompts_t;

/* Reads sample.prompt, or the lines of sample.prompt_file; the last line may lack its
 * newline. After a failure there is nothing to free.
 * Fails: CONFIG (no such file, or it has no line), IO, MEMORY. */
pt_status_t pt_prompts_read(const pt_config_t *config, pt_prompts_t *out);
void pt_prompts_free(pt_prompts_t *prompts);

/* ---- output.c -------------------------------------------------------------------- */

/* Writes texts to stdout.
 * One text: the prompt and the bytes that follow, as they are generated.
 * Several: each text when it is complete, in the order of prompts, after a line "==>
 * prompt P, text T <==".
 * json: an array of {"prompt": …, "text": the bytes that follow}; invalid UTF-8 is
 *   replaced by U+FFFD.
 * Returns STOPPED if the reader has closed the pipe, which is not a failure.
 * Fails: IO (common). */
typedef struct pt_output {
    bool json, several;
    int64_t written; /* texts so far */
} pt_output_t;

pt_status_t pt_output_bytes(const void *bytes, size_t length);
pt_status_t pt_output_text(pt_output_t *output, const char *prompt, const uint8_t *text,
                           int64_t length, int64_t prompt_number, int64_t text_number);
pt_status_t pt_output_end(const pt_output_t *output);

/* ---- texts.c --------------------------------------------------------------------- */

/* Continues each prompt sample.count times, sample.batch texts at the same time.
 * Returns STOPPED as pt_output_text. */
pt_status_t pt_texts_make(const pt_config_t *config, const pt_prompts_t *prompts,
                          pt_generator_t *generator, pt_output_t *output);

#endif
