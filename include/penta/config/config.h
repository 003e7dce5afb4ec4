/* SPDX-License-Identifier: Apache-2.0 */
/* config.h — what the user asked for (layer: config, seen from parallel upwards).
 *
 * Everything comes from the option table include/penta/config/options.def. Precedence: default < preset or
 * config.json (model.* only) < file < environment (PENTA_SECTION_KEY) < command line; in one
 * source a later value wins. Rank 0 reads files and environment into one text; the caller
 * broadcasts it and every rank parses the same bytes, so errors here are COMMON and CONFIG: one
 * message that says what, where (file:line, or the argument) and the nearest that works. No MPI.
 *
 * pt_config_t is plain data: copy, compare and broadcast it freely. */
#ifndef PENTA_CONFIG_H
#define PENTA_CONFIG_H

#include "penta/base/device_kind.h"
#include "penta/base/status.h"
#include "penta/base/tensor.h"
#include "penta/base/text.h"

/* The words of a list of choices, "a|b". */
#define PT_CHOICE_WORD(name, word) "|" word
#define PT_CHOICE_WORDS(list)      (&(list(PT_CHOICE_WORD))[1])

enum {
    PT_CONFIG_TEXT = 4096,
    PT_CONFIG_ORIGIN = 192,
    PT_CONFIG_AXES = PT_AXIS_DATA + 1 /* tensor, context, pipeline, data */
};

typedef enum pt_option_id {
#define PT_SECTION(section, help)
#define PT_SECTION_END(section)
#define PT_INT(section, key, ...)    PT_OPTION_##section##_##key,
#define PT_REAL(section, key, ...)   PT_OPTION_##section##_##key,
#define PT_BOOL(section, key, ...)   PT_OPTION_##section##_##key,
#define PT_CHOICE(section, key, ...) PT_OPTION_##section##_##key,
#define PT_TIME(section, key, ...)   PT_OPTION_##section##_##key,
#define PT_ORDER(section, key, ...)  PT_OPTION_##section##_##key,
#define PT_TEXT(section, key, ...)   PT_OPTION_##section##_##key,
#include "penta/config/options.def"
#undef PT_SECTION
#undef PT_SECTION_END
#undef PT_INT
#undef PT_REAL
#undef PT_BOOL
#undef PT_CHOICE
#undef PT_TIME
#undef PT_ORDER
#undef PT_TEXT
    PT_OPTION_COUNT
} pt_option_id_t;

/* Where the value of an option comes from; the text `origin` says it in words, with file and line. */
typedef enum pt_source {
    PT_SOURCE_DEFAULT, /* the row */
    PT_SOURCE_DERIVED, /* other options */
    PT_SOURCE_GIVEN    /* a preset, file, variable or argument */
} pt_source_t;

/* config->SECTION.KEY. Choices are indices into their list, times are seconds. */
typedef struct pt_config {
#define PT_SECTION(section, help) struct {
#define PT_SECTION_END(section)                                                        \
    }                                                                                  \
    section;
#define PT_INT(section, key, ...)    int64_t key;
#define PT_REAL(section, key, ...)   double key;
#define PT_BOOL(section, key, ...)   bool key;
#define PT_CHOICE(section, key, ...) int key;
#define PT_TIME(section, key, ...)   int64_t key;
#define PT_ORDER(section, key, ...)  pt_axis_t key[PT_CONFIG_AXES];
#define PT_TEXT(section, key, ...)   char key[PT_CONFIG_TEXT];
#include "penta/config/options.def"
#undef PT_SECTION
#undef PT_SECTION_END
#undef PT_INT
#undef PT_REAL
#undef PT_BOOL
#undef PT_CHOICE
#undef PT_TIME
#undef PT_ORDER
#undef PT_TEXT
    char origin[PT_OPTION_COUNT][PT_CONFIG_ORIGIN];
    pt_source_t source[PT_OPTION_COUNT];
} pt_config_t;

/* Values of choices, in the order of the table (a test compares them with the list); those of run.device and run.isa
 * are pt_device_kind_t and pt_isa_t. */
typedef enum pt_choose { PT_CHOOSE_PRESET, PT_CHOOSE_YES, PT_CHOOSE_NO } pt_choose_t;
typedef enum pt_precision {
    PT_PRECISION_FP64,
    PT_PRECISION_FP32,
    PT_PRECISION_BF16,
    PT_PRECISION_FP16
} pt_precision_t;
/* train.grad_dtype, train.moments_dtype, parallel.reduce_dtype. */
typedef enum pt_narrow { PT_NARROW_AUTO, PT_NARROW_FP32, PT_NARROW_BF16 } pt_narrow_t;
typedef enum pt_decay {
    PT_DECAY_COSINE,
    PT_DECAY_LINEAR,
    PT_DECAY_CONSTANT,
    PT_DECAY_WSD
} pt_decay_t;
typedef enum pt_format {
    PT_FORMAT_TEXT,
    PT_FORMAT_IDX,
    PT_FORMAT_U16,
    PT_FORMAT_U32
} pt_format_t;
typedef enum pt_verify { PT_VERIFY_NONE, PT_VERIFY_DIGEST, PT_VERIFY_FULL } pt_verify_t;

typedef enum pt_option_type {
    PT_TYPE_INT,
    PT_TYPE_REAL,
    PT_TYPE_BOOL,
    PT_TYPE_CHOICE,
    PT_TYPE_TIME,
    PT_TYPE_ORDER,
    PT_TYPE_TEXT
} pt_option_type_t;
typedef enum pt_effect {
    PT_EFFECT_BITS,
    PT_EFFECT_ROUNDING,
    PT_EFFECT_RESULT,
    PT_EFFECT_DEPENDS /* in the table only: ask pt_option_effect */
} pt_effect_t;
typedef enum pt_on_resume { PT_RESUME_FIXED, PT_RESUME_FREE } pt_on_resume_t;

/* A row of the table, for help, checks and tests. */
typedef struct pt_option {
    const char *section, *key;
    pt_option_type_t type;
    const char *default_text;
    const char *unit;    /* "" if none; what is written, for times, orders, texts */
    const char *choices; /* "a|b"; NULL unless CHOICE */
    const char *none;    /* how a TIME of 0 is written */
    int64_t int_min, int_max;
    double real_min, real_max;
    pt_effect_t effect;
    pt_on_resume_t resume;
    const char *help;
    size_t offset, size; /* of the field in pt_config_t */
} pt_option_t;

const pt_option_t *pt_option(pt_option_id_t id);
/* What another value of the option may change in a run that is otherwise like `config` (finished). Never DEPENDS. */
pt_effect_t pt_option_effect(pt_option_id_t id, const pt_config_t *config);
/* NULL when unknown. */
const pt_option_t *pt_option_find(const char *section, const char *key);
const char *pt_section_help(const char *section);

/* Rank 0: reads the configuration file (NULL or "": none), the environment and the arguments
 * ("section.key=value") into one text of lines for pt_config_parse, files named by
 * model.config_json included. Local; errors are COMMON in kind (the caller broadcasts them).
 * Caller frees *out with pt_free. Fails: CONFIG, IO. */
pt_status_t pt_config_gather(const char *file, int argc, char *const argv[], char **out);
/* A text file of at most `limit` bytes, none of them NUL, without its byte order mark; UTF-16 is refused; `what` it is, for messages. Waits for
 * what writes into a pipe, after a few seconds with a warning. Local; errors as
 * above. Caller frees *out, which ends with a NUL, with pt_free. Fails: CONFIG, IO. */
pt_status_t pt_file_read(const char *path, const char *what, size_t limit, char **out,
                         size_t *length);
/* Pure: defaults, then the text. Checks each value by its row, fills model.* from the preset or
 * config.json, then all rules that need no rank count. An archived INI text is such a text too. */
pt_status_t pt_config_parse(const char *gathered, pt_config_t *out);
/* The same; messages call the INI text that stands before any block, an archive for one, `name`. */
pt_status_t pt_config_parse_named(const char *name, const char *gathered,
                                  pt_config_t *out);
/* Rules that involve the number of ranks (what must divide what). Pure. */
pt_status_t pt_config_check_layout(const pt_config_t *config, int ranks);
/* Sets one value as the command line would ("train.steps", "10"). Pure; for tests and tools. */
pt_status_t pt_config_set(pt_config_t *config, const char *dotted_key,
                          const char *value, const char *origin);
void pt_config_defaults(pt_config_t *out); /* no preset applied */
/* Fills model.* from preset or config.json where not given; then checks everything. */
pt_status_t pt_config_finish(pt_config_t *config);

/* Text of one value, as it would be written in a file; returns buffer. Parsing it gives the same
 * value, bit for bit. */
const char *pt_config_value(const pt_config_t *config, pt_option_id_t id, char *buffer,
                            size_t size);
/* The resolved configuration as an INI text, each value with its origin. Caller frees with pt_free. */
pt_status_t pt_config_to_ini(const pt_config_t *config, char **out);
/* Updates of warm-up in a schedule of that length, which may be that of an earlier start: at most all of it; a default
 * that train.steps of this start has lowered counts as it was. */
int64_t pt_config_warmup(const pt_config_t *config, int64_t decay_steps);
/* A checkpoint that a run may resume from. */
typedef struct pt_resume_point {
    const char *path;
    int64_t updates;     /* of the weights so far */
    int64_t decay_steps; /* its schedule; set to the one to go on with */
} pt_resume_point_t;
/* On resume: compares what all FIXED options mean, however it is spelt, with the archived INI text. The
 * schedule (train.decay_steps, train.decay, train.wsd_decay) may differ where its decay, old and new, has no influence
 * yet; that of cosine and linear is as long as it was. CONFIG,
 * listing every row that differs. */
pt_status_t pt_config_check_resume(const pt_config_t *config, const char *archived_ini,
                                   pt_resume_point_t *point);
/* Logs, on rank 0, which options that may change the result are not as in the archive `path`. */
pt_status_t pt_config_tell_changes(const pt_config_t *config, const char *archived_ini,
                                   const char *path);

/* Would weights made by the model of an archived configuration mean the same in this one? What shapes do
 * not tell must be equal (CONFIG, listing what is not); other differences of the model, and what the archive
 * does not say, are a warning.
 * `path` is where the archive comes from. */
pt_status_t pt_config_check_model(const pt_config_t *config, const char *archived_ini,
                                  const char *path);

/* checkpoint.resume. */
typedef enum pt_start { PT_START_NEWEST, PT_START_AFRESH, PT_START_FILE } pt_start_t;
pt_start_t pt_config_start(const pt_config_t *config);
/* Recompute choice: every = 0 none, -1 selective, K >= 1: one in K layers kept. */
pt_status_t pt_config_recompute(const pt_config_t *config, int *every);
/* train.loss_scale: a power of two; 0: dynamic. Fails: CONFIG. */
enum { PT_LOSS_SCALE_BITS = 40 }; /* largest: 2^40 */
pt_status_t pt_config_loss_scale(const pt_config_t *config, double *out);
/* "data.path (tiny.ini:4)": an option and where its value comes from, for messages; returns buffer. */
const char *pt_config_origin(const pt_config_t *config, pt_option_id_t id, char *buffer,
                             size_t size);
/* Items of an option that is a list "A,B"; 0: it is empty. */
int pt_config_items(const pt_config_t *config, pt_option_id_t id);
/* One of them, without blanks around it. */
void pt_config_item(const pt_config_t *config, pt_option_id_t id, int index,
                    char buffer[PT_CONFIG_TEXT]);
/* Item of a list of masks: the file, in buffer; NULL: "-", every token counts. */
const char *pt_config_mask(const pt_config_t *config, pt_option_id_t id, int index,
                           char buffer[PT_CONFIG_TEXT]);
/* Item of data.validation, "NAME=FILE": the name in buffer; returns the file, behind it there. */
enum { PT_VALIDATION_NAME = 32 };
const char *pt_config_validation(const pt_config_t *config, int index,
                                 char buffer[PT_CONFIG_TEXT]);
/* data.weights as whole numbers without a common divisor, for `count` files (out may be NULL); their
 * sum is at most PT_BLEND_PERIOD. Fails: CONFIG. */
enum { PT_BLEND_PERIOD = 1000000 };
pt_status_t pt_config_weights(const pt_config_t *config, int count, int64_t *out);
/* data.split: shares of train and validation, each in [0,1], sum <= 1. */
void pt_config_split(const pt_config_t *config, double *train, double *validation);

/* --help of a subcommand's options: every row of `sections` ("model,train"), wrapped. */
void pt_config_help(const char *sections, void (*put)(void *sink, const char *line),
                    void *sink);
/* The man page penta(1) and jobs/conf/template.ini, made from the table. Caller frees with pt_free. */
pt_status_t pt_config_man(char **out);
pt_status_t pt_config_template(char **out);

#endif
