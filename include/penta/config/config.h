/* SPDX-License-Identifier: Apache-2.0 */
/* config.h — the configuration of a run (layer: config, used from parallel upwards).
 *
 * Everything is generated from the option table include/penta/config/options.def.
 * Precedence, lowest first: default, preset or config.json (model.* only), file,
 * environment (PENTA_SECTION_KEY), command line. Within one source a later value wins.
 *
 * Rank 0 reads files and environment into one text, the caller broadcasts it, and every
 * rank parses the same bytes. Errors here are therefore COMMON and CONFIG: one message
 * that gives the value, its source (file:line, or the argument) and the nearest valid
 * value. No MPI.
 *
 * pt_config_t is plain data: it may be copied, compared and broadcast as bytes. */
#ifndef PENTA_CONFIG_H
#define PENTA_CONFIG_H

#include "penta/base/device_kind.h"
#include "penta/base/status.h"
#include "penta/base/tensor.h"
#include "penta/base/text.h"

/* The words of a list of choices: "a|b". */
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
#define PT_VALUE(section, key, ...)  PT_OPTION_##section##_##key,
#define PT_TEXT(section, key, ...)   PT_OPTION_##section##_##key,
#include "penta/config/options.def"
#undef PT_SECTION
#undef PT_SECTION_END
#undef PT_INT
#undef PT_REAL
#undef PT_BOOL
#undef PT_CHOICE
#undef PT_VALUE
#undef PT_TEXT
    PT_OPTION_COUNT
} pt_option_id_t;

/* Source of the value of an option. The text `origin` adds file and line. */
typedef enum pt_source {
    PT_SOURCE_DEFAULT, /* the table row */
    PT_SOURCE_DERIVED, /* other options */
    PT_SOURCE_GIVEN    /* a preset, file, variable or argument */
} pt_source_t;

/* Values with a syntax of their own. */
typedef int64_t pt_value_time_t;    /* seconds; 0: none, spelt "" */
typedef int64_t pt_value_timeout_t; /* seconds; 0: none, spelt "0" */
/* 0: none; -1: selective; K >= 1: one layer in K is kept, so that 1 is full. */
typedef int64_t pt_value_recompute_t;
/* A power of two; 0: dynamic. */
typedef double pt_value_scale_t;
enum { PT_LOSS_SCALE_BITS = 40 }; /* largest: 2^40 */
/* Shares of training and validation, each in [0,1], with a sum of at most 1. */
typedef struct pt_value_split {
    double train, validation;
} pt_value_split_t;
typedef struct pt_value_order {
    pt_axis_t axis[PT_CONFIG_AXES]; /* each once, innermost first */
} pt_value_order_t;

/* config->SECTION.KEY. A choice is an index into its list. */
typedef struct pt_config {
#define PT_SECTION(section, help) struct {
#define PT_SECTION_END(section)                                                        \
    }                                                                                  \
    section;
#define PT_INT(section, key, ...)         int64_t key;
#define PT_REAL(section, key, ...)        double key;
#define PT_BOOL(section, key, ...)        bool key;
#define PT_CHOICE(section, key, ...)      int key;
#define PT_VALUE(section, key, kind, ...) pt_value_##kind##_t key;
#define PT_TEXT(section, key, ...)        char key[PT_CONFIG_TEXT];
#include "penta/config/options.def"
#undef PT_SECTION
#undef PT_SECTION_END
#undef PT_INT
#undef PT_REAL
#undef PT_BOOL
#undef PT_CHOICE
#undef PT_VALUE
#undef PT_TEXT
    char origin[PT_OPTION_COUNT][PT_CONFIG_ORIGIN];
    pt_source_t source[PT_OPTION_COUNT];
} pt_config_t;

/* Values of choices, in the order of the option table (a test compares them). The
 * values of run.device and run.isa are pt_device_kind_t and pt_isa_t; the modules have
 * those of checkpoint.verify, parallel.schedule and comm.gpu_direct. */
typedef enum pt_choose { PT_CHOOSE_PRESET, PT_CHOOSE_YES, PT_CHOOSE_NO } pt_choose_t;
/* model.norm, activation, positions, bias; PT_CHOOSE_PRESET as above. */
enum { PT_CHOOSE_LAYER = 1, PT_CHOOSE_RMS };
enum { PT_CHOOSE_GELU = 1, PT_CHOOSE_SWIGLU };
enum { PT_CHOOSE_LEARNED = 1, PT_CHOOSE_ROTARY };
enum { PT_CHOOSE_BIAS_NONE = 1, PT_CHOOSE_BIAS_QKV, PT_CHOOSE_BIAS_ALL };
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

typedef enum pt_option_type {
    PT_TYPE_INT,
    PT_TYPE_REAL,
    PT_TYPE_BOOL,
    PT_TYPE_CHOICE,
    PT_TYPE_VALUE,
    PT_TYPE_TEXT
} pt_option_type_t;
typedef enum pt_effect {
    PT_EFFECT_BITS,
    PT_EFFECT_ROUNDING,
    PT_EFFECT_RESULT,
    PT_EFFECT_DEPENDS /* only in the table; see pt_option_effect */
} pt_effect_t;
typedef enum pt_on_resume { PT_RESUME_FIXED, PT_RESUME_FREE } pt_on_resume_t;

/* A row of the option table. */
typedef struct pt_option {
    const char *section, *key;
    pt_option_type_t type;
    const char *default_text;
    const char *unit;               /* "": none; VALUE, TEXT: the syntax */
    const char *choices;            /* "a|b"; NULL: no CHOICE */
    const struct pt_syntax *syntax; /* NULL: no VALUE */
    int64_t int_min, int_max;
    double real_min, real_max;
    pt_effect_t effect;
    pt_on_resume_t resume;
    const char *help;
    size_t offset, size; /* of the field in pt_config_t */
} pt_option_t;

const pt_option_t *pt_option(pt_option_id_t id);
/* What a change of the option alone may change in a run.
 * id: the option.
 * config: configuration of the run, finished.
 * Returns an effect other than DEPENDS. Pure. */
pt_effect_t pt_option_effect(pt_option_id_t id, const pt_config_t *config);
/* Row of section.key; NULL: no such option. */
const pt_option_t *pt_option_find(const char *section, const char *key);
const char *pt_section_help(const char *section);

/* Gathers file, environment and arguments into one text for pt_config_parse.
 * file: configuration file; NULL or "": none.
 * argc, argv: arguments "section.key=value".
 * out: [out] the text, with the content of model.config_json; the caller frees it with
 *   pt_free.
 * Rank 0 only; Local. Fails: CONFIG, IO, of scope COMMON: the caller broadcasts the
 * error. */
pt_status_t pt_config_gather(const char *file, int argc, char *const argv[], char **out);
/* Reads a text file.
 * path: regular file or pipe. Waits for the writer of a pipe; warns after a few
 *   seconds.
 * what: description of the file, for messages.
 * limit: maximum size in bytes.
 * out: [out] the text without its byte order mark, NUL-terminated; the caller frees it
 *   with pt_free.
 * length: [out] bytes of the text, without the NUL.
 * Local. Fails, scope COMMON: CONFIG (too long, a NUL byte, UTF-16), IO. */
pt_status_t pt_file_read(const char *path, const char *what, size_t limit, char **out,
                         size_t *length);
/* Parses a gathered text: sets defaults, then the values of the text, each checked
 * against its row; fills model.* from the preset or config.json; checks all rules that
 * do not involve the number of ranks.
 * gathered: from pt_config_gather, or an archived INI text.
 * out: [out] the finished configuration.
 * Pure. Fails: CONFIG. */
pt_status_t pt_config_parse(const char *gathered, pt_config_t *out);
/* The same. `name`: used in messages for INI text before the first block, such as an
 * archived configuration. */
pt_status_t pt_config_parse_named(const char *name, const char *gathered,
                                  pt_config_t *out);
/* Checks the rules that involve the number of ranks (divisibility).
 * Pure. Fails: CONFIG. */
pt_status_t pt_config_check_layout(const pt_config_t *config, int ranks);
/* Sets one value as the command line does: ("train.steps", "10"). For tests and tools.
 * Pure. Fails: CONFIG. */
pt_status_t pt_config_set(pt_config_t *config, const char *dotted_key,
                          const char *value, const char *origin);
void pt_config_defaults(pt_config_t *out); /* without a preset */
/* Fills model.* from the preset or config.json where it is not given, then checks all
 * rules that do not involve the number of ranks.
 * Fails: CONFIG, IO. */
pt_status_t pt_config_finish(pt_config_t *config);

/* Writes the text of one value, spelled as in a file, into `buffer` and returns it.
 * Parsing the text gives the same value, bit for bit. */
const char *pt_config_value(const pt_config_t *config, pt_option_id_t id, char *buffer,
                            size_t size);
/* The resolved configuration as INI text, each value with its origin. The caller frees
 * *out with pt_free. */
pt_status_t pt_config_to_ini(const pt_config_t *config, char **out);
/* Updates of warm-up in a schedule of `decay_steps` updates, at most all of them. The
 * schedule may be that of an earlier start: a default that train.steps of this start
 * has lowered counts with its original value. */
int64_t pt_config_warmup(const pt_config_t *config, int64_t decay_steps);
/* A checkpoint that a run may resume from. */
typedef struct pt_resume_point {
    const char *path;
    int64_t updates;     /* updates of the weights so far */
    int64_t decay_steps; /* [in] its schedule; [out] the schedule to use */
} pt_resume_point_t;
/* Compares the options that must not change on resume with those of a checkpoint.
 * Values count, not their spelling. The schedule (train.decay_steps, train.decay,
 * train.wsd_decay) may differ as long as neither the old nor the new decay has begun;
 * with cosine and linear its length is kept.
 * archived_ini: INI text of the checkpoint.
 * point: [in,out] the checkpoint; decay_steps is set to the schedule to use.
 * Fails: CONFIG, listing every option that differs. */
pt_status_t pt_config_check_resume(const pt_config_t *config, const char *archived_ini,
                                   pt_resume_point_t *point);
/* Logs, on rank 0, the options that may change the result and differ from the archive
 * `path`. */
pt_status_t pt_config_tell_changes(const pt_config_t *config, const char *archived_ini,
                                   const char *path);

/* Checks that weights of an archived model mean the same in this one. Properties that
 * shapes do not determine must be equal. Other differences of the model, and properties
 * missing in the archive, are warnings.
 * archived_ini: INI text of the archive.
 * path: source of the archive, for messages.
 * Fails: CONFIG, listing the options that differ. */
pt_status_t pt_config_check_model(const pt_config_t *config, const char *archived_ini,
                                  const char *path);

/* checkpoint.resume. */
typedef enum pt_start { PT_START_NEWEST, PT_START_AFRESH, PT_START_FILE } pt_start_t;
pt_start_t pt_config_start(const pt_config_t *config);
/* Writes an option and its origin, for messages, into `buffer` and returns it:
 * "data.path (tiny.ini:4)". */
const char *pt_config_origin(const pt_config_t *config, pt_option_id_t id, char *buffer,
                             size_t size);
/* Number of items of a list option "A,B"; 0: empty. */
int pt_config_items(const pt_config_t *config, pt_option_id_t id);
/* Item `index` of a list option, without surrounding blanks. */
void pt_config_item(const pt_config_t *config, pt_option_id_t id, int index,
                    char buffer[PT_CONFIG_TEXT]);
/* Item `index` of a list of masks. buffer: [out] the file. Returns `buffer`; NULL: the
 * item is "-", every token counts. */
const char *pt_config_mask(const pt_config_t *config, pt_option_id_t id, int index,
                           char buffer[PT_CONFIG_TEXT]);
/* Item `index` of data.validation, "NAME=FILE". buffer: [out] the name. Returns the
 * file, also in `buffer`; NULL: the item has no "=". */
enum { PT_VALIDATION_NAME = 32 };
const char *pt_config_validation(const pt_config_t *config, int index,
                                 char buffer[PT_CONFIG_TEXT]);
/* data.weights as whole numbers without a common divisor; their sum is at most
 * PT_BLEND_PERIOD.
 * count: number of files.
 * out: [out] count weights; may be NULL.
 * Fails: CONFIG. */
enum { PT_BLEND_PERIOD = 1000000 };
pt_status_t pt_config_weights(const pt_config_t *config, int count, int64_t *out);

/* Passes --help of the options to `put`, line by line.
 * sections: sections to list, "model,train"; "": all.
 * sink: passed to `put`. */
void pt_config_help(const char *sections, void (*put)(void *sink, const char *line),
                    void *sink);
/* The man page penta(1) and jobs/conf/template.ini, generated from the table. The
 * caller frees *out with pt_free. */
pt_status_t pt_config_man(char **out);
pt_status_t pt_config_template(char **out);

#endif
