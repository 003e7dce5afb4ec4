/* SPDX-License-Identifier: Apache-2.0 */
/* Generates penta(1) from the option table and the table of statuses. */
#include "src/config/private.h"

#include <string.h>

static const char head[] =
    ".TH PENTA 1 \"\" Penta \"User Commands\"\n"
    ".SH NAME\n"
    "penta \\- pre\\-train language models on clusters\n"
    ".SH SYNOPSIS\n"
    ".B mpiexec \\-n\n.I RANKS\n.B penta train\n"
    "[\\fICONF\\fR] [\\fISECTION\\fR.\\fIKEY\\fR=\\fIVALUE\\fR ...]\n.br\n"
    ".B penta\n.I COMMAND\n.B \\-\\-help\n"
    ".SH DESCRIPTION\n"
    "Penta trains decoder\\-only language models as one MPI program. Any layout of "
    "ranks gives the\n"
    "same model and restarts from any checkpoint.\n"
    ".SH COMMANDS\n";

static const char *const commands[][2] = {
    {"train", "trains a model, or continues from the newest checkpoint of run.dir"},
    {"plan", "prints what a run needs per rank: memory, traffic, operations"},
    {"inspect", "shows, verifies or compares checkpoints"},
    {"sample", "continues texts with a trained model"},
    {"status", "reports the progress of a run, how it ended, and what to do next"},
};

static const char tail[] =
    ".SH FILES\n"
    ".TP\n.I CONF\n"
    "An INI file: sections, key = value, comments with # or, after a value, with a "
    "blank and ;.\n"
    "A line has at most 197 bytes; a longer value continues in indented lines: the "
    "next "
    "elements of a\n"
    "list, or quoted parts of a text. A value in double quotes may hold \\e\" \\e\\e "
    "\\en \\et \\exHH.\n"
    "jobs/conf/template.ini has every option.\n"
    "Whole numbers may be written as 1e6 or 2^20, real numbers in decimal with a "
    "point; yes, true, on and 1 mean the same.\n"
    ".br\nA path that begins with ~ or $HOME, here, in the environment or in an "
    "argument, is in the home directory.\n"
    "Other ~NAME and $NAME are refused; a file of that name is ./~NAME, or "
    "\"\\ex24NAME\" in quotes. In a "
    "list of files a\n"
    "comma that belongs to a name is written \\e,.\n"
    ".TP\n.I run.dir/config.resolved.ini\n"
    "The values of the run and where each came from. It is itself a CONF.\n"
    ".TP\n.I run.dir/metrics.jsonl\n"
    "One JSON object per step, and one per validation, which has no loss.\n"
    ".TP\n.I run.dir/summary.json, run.dir/status.json\n"
    "How the run ended, for people and for batch scripts.\n"
    ".TP\n.I run.dir/checkpoints/step_NNNNNNNN.h5\n"
    "Checkpoints.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B PENTA_\\fISECTION\\fB_\\fIKEY\n"
    "Sets an option, as in PENTA_TRAIN_STEPS=100; an empty value counts as unset. "
    "Precedence,\n"
    "lowest first: default, preset or config.json (model.* only), CONF, environment, "
    "command "
    "line.\n"
    ".TP\n.B PENTA_FAULT\n"
    "Injects a fault, for tests.\n"
    ".SH EXAMPLES\n"
    ".nf\n"
    "mpiexec \\-n 2 penta train jobs/conf/tiny.ini data.path=corpus.txt\n"
    "penta train model.preset=gpt2\\-124m data.path=a.txt,b.txt train.steps=1000 "
    "run.dir=gpt2\n"
    "penta plan model.preset=llama3\\-8b parallel.ranks=1024\n"
    ".fi\n";

/* Adds text with the characters escaped that roff interprets. */
static void man_add_text(pt_string_t *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        pt_string_add(out, "\\&");
    for (; *text; text++)
        if (*text == '\\')
            pt_string_add(out, "\\e");
        else
            pt_string_add(out, *text == '-' ? "\\-" : "%c", *text);
    pt_string_add(out, "\n");
}

static void man_add_option(pt_string_t *out, const pt_option_t *row)
{
    char allowed[256];

    pt_string_add(out, ".TP\n.B %s.%s\n", row->section, row->key);
    man_add_text(out, row->help);
    pt_string_add(out, ".br\n");
    if (*row->default_text) {
        pt_string_add(out, "Default: ");
        man_add_text(out, row->default_text);
    } else
        pt_string_add(out, "Default: empty\n");
    pt_string_add(out, ".br\nValues: ");
    man_add_text(out, pt_option_allowed(row, allowed, sizeof allowed));
    if (row->type == PT_TYPE_INT && *row->unit)
        pt_string_add(out, "(%s)\n", row->unit);
    if (row->resume == PT_RESUME_FIXED)
        pt_string_add(out, ".br\nMust not change when a run is resumed.\n");
}

static void man_add_statuses(pt_string_t *out)
{
    pt_string_add(
        out,
        ".SH EXIT STATUS\n"
        "Every rank returns the same code; status.json in run.dir holds it too.\n");
#define PT_STATUS(name, code, sentence)                                                \
    pt_string_add(out, ".TP\n.B %d\n", code);                                          \
    man_add_text(out, sentence);
#include "penta/base/status.def"
#undef PT_STATUS
}

pt_status_t pt_config_man(char **out)
{
    pt_string_t text = {0};
    const char *section = "";

    pt_string_add(&text, "%s", head);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        pt_string_add(&text, ".TP\n.B %s\n", commands[i][0]);
        man_add_text(&text, commands[i][1]);
    }
    pt_string_add(
        &text,
        ".SH OPTIONS\nGiven in CONF under [section], or as section.key=value.\n");
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);

        if (strcmp(section, row->section) != 0) {
            pt_string_add(&text, ".SS %s\n", row->section);
            man_add_text(&text, pt_section_help(row->section));
        }
        section = row->section;
        man_add_option(&text, row);
    }
    man_add_statuses(&text);
    pt_string_add(&text, "%s", tail);
    return pt_string_take(&text, out);
}
