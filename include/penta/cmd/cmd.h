/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h — the subcommands (layer: cmd). main uses only this header of cmd. */
#ifndef PENTA_CMD_H
#define PENTA_CMD_H

#include "penta/comm/comm.h"
#include "penta/config/config.h"

typedef struct pt_command {
    const char *name;
    const char *arguments; /* for the usage line */
    const char *summary;   /* one line */
    const char *details;   /* paragraphs of --help */
    /* Option sections listed by --help: "model,train"; "": none. */
    const char *sections;
    bool parallel; /* all ranks of the launch; else serial transport */
    /* argv[0]: name of the command; argv[1]: not --help. Collective if parallel. */
    pt_status_t (*run)(int argc, char **argv, pt_transport_t *transport);
} pt_command_t;

/* The command of that name. NULL: there is none; the error record then says so and
 * suggests the nearest name. */
const pt_command_t *pt_command_find(const char *name);
/* Prints "penta --help" (command NULL) or "penta NAME --help" on stdout. */
void pt_command_help(const pt_command_t *command);

/* Handles --help, --version, --man, --template, and a call without arguments: prints
 * the answer.
 * status: [out] whether printing succeeded.
 * Returns false if argv[1] is none of these. */
bool pt_cmd_is_answered(int argc, char **argv, pt_status_t *status);
/* The same for --help or -h at any position after a command. */
bool pt_cmd_is_helped(const pt_command_t *command, int argc, char **argv,
                      pt_status_t *status);
/* Checks at the end of a command that stdout was written.
 * status: status of the command.
 * Returns `status`, or IO if output was lost. A closed pipe (penta plan | head) is not
 * a failure. */
pt_status_t pt_cmd_check_output(pt_status_t status);

/* The configuration of a command, from arguments [CONF] section.key=value …: gathered
 * on rank 0, broadcast, parsed by all ranks.
 * Collective. Fails: CONFIG, IO (common). */
pt_status_t pt_cmd_config(pt_transport_t *transport, int argc, char **argv,
                          pt_config_t *out);
/* Removes `flag` ("--json") from the arguments. Returns whether it was there. */
bool pt_cmd_take_flag(int *argc, char **argv, const char *flag);

#endif
