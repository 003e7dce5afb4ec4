/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h — subcommands (layer: cmd). main knows their names, nothing else. */
#ifndef PENTA_CMD_H
#define PENTA_CMD_H

#include "penta/comm/comm.h"
#include "penta/config/config.h"

typedef struct pt_command {
    const char *name;
    const char *arguments; /* of the usage line */
    const char *summary;   /* one line */
    const char *details;   /* paragraphs of --help */
    /* Option sections that matter, for --help: "model,train"; "": none. */
    const char *sections;
    bool parallel; /* runs on all ranks of the launch; others run on the serial transport */
    /* argv[0] is the command's name, argv[1] never --help. Collective when parallel. */
    pt_status_t (*run)(int argc, char **argv, pt_transport_t *transport);
} pt_command_t;

/* NULL: no such command; then the error record says so, with the nearest name. */
const pt_command_t *pt_command_find(const char *name);
/* "penta --help" (NULL) or "penta NAME --help", on stdout. */
void pt_command_help(const pt_command_t *command);

/* What needs no command (--help, --version, --man, --template, nothing): prints it, *status says how that
 * went; false: argv[1] is none of these. */
bool pt_cmd_is_answered(int argc, char **argv, pt_status_t *status);
/* The same for --help or -h anywhere behind a command. */
bool pt_cmd_is_helped(const pt_command_t *command, int argc, char **argv,
                      pt_status_t *status);
/* `status`, or IO when what was to be printed is lost; not when its reader left (penta plan | head). */
pt_status_t pt_cmd_check_output(pt_status_t status);

/* The configuration of a command: [CONF] section.key=value …, gathered on rank 0, broadcast, parsed by
 * all. Collective. Fails: CONFIG, IO (common). */
pt_status_t pt_cmd_config(pt_transport_t *transport, int argc, char **argv,
                          pt_config_t *out);
/* Is `flag` ("--json") among the arguments? Removes it. */
bool pt_cmd_take_flag(int *argc, char **argv, const char *flag);

#endif
