/* Inside of penta sample: a model that only reads, and the choice of the next token. */
#ifndef PENTA_CMD_SAMPLE_H
#define PENTA_CMD_SAMPLE_H

#include "penta/comm.h"
#include "penta/config.h"

enum { PT_BYTES = 256 }; /* tokens that stand for a byte */

/* ---- generator.c ------------------------------------------------------------------------- */

typedef struct pt_generator pt_generator_t;

/* The model of a checkpoint on one rank: dimensions and precision as the file's archived
 * configuration has them, device and threads as `config` has them; weights only, their digests
 * compared. Fails: IO (the file is damaged or not of a model), CONFIG (tokens are not bytes),
 * MEMORY. Borrows path. Caller destroys. */
pt_status_t pt_generator_create(const pt_config_t *config, pt_wire_t *wire,
                                const char *path, pt_generator_t **out);
void pt_generator_destroy(pt_generator_t *generator);
/* Of the checkpoint. The path is the one given to create. */
const char *pt_generator_path(const pt_generator_t *generator);
int64_t pt_generator_step(const pt_generator_t *generator);
double pt_generator_loss(const pt_generator_t *generator);
/* Tokens the model was trained to look back at: the longest text it takes. */
int64_t pt_generator_window(const pt_generator_t *generator);
/* Logits of the byte that follows text[0, length), 1 <= length <= window. Fails: NUMERIC. */
pt_status_t pt_generator_logits(pt_generator_t *generator, const uint8_t *text,
                                int64_t length, double logits[PT_BYTES]);

/* ---- choice.c ----------------------------------------------------------------------------- */

typedef struct pt_choice {
    double temperature; /* 0: the likeliest; of equal ones the lowest */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
} pt_choice_t;

/* Token `index` of the output: a function of the arguments alone. Finite logits. */
int pt_choose(const pt_choice_t *choice, const double logits[PT_BYTES], int64_t index);

#endif
