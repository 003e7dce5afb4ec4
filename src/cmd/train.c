/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "penta/comm/watch.h"
#include "penta/train/train.h"
#include "src/cmd/private.h"

static pt_status_t train_run(int argc, char **argv, pt_transport_t *transport)
{
    pt_config_t *config = NULL;
    pt_status_t status;
    PT_TRY(PT_NEW("configuration", 1, &config));
    pt_watch_start(
        &(pt_watch_options_t){.timeout_sec = PT_WATCH_DEFAULT_SEC, .directory = ""});
    PT_TRY_GOTO(done, pt_cmd_config(transport, argc, argv, config));
    pt_log_set_level((pt_log_level_t)config->run.log_level);
    status = pt_train_run(config, transport, NULL);
done:
    pt_free(config);
    return status;
}

const pt_command_t pt_command_train = {
    .name = "train",
    .arguments = "[CONF] [section.key=value ...]",
    .summary = "Trains a model, or continues from the newest checkpoint of run.dir",
    .details =
        "Run it on several ranks: mpiexec -n 4 penta train CONF. SIGTERM, "
        "SIGINT, SIGUSR1, SIGUSR2,\n"
        "SIGHUP, SIGXCPU, a file named 'stop' in run.dir and run.time_limit "
        "make it save and stop\n"
        "with exit code 75; submit it again to continue, on any number of ranks. "
        "The outcome is in\n"
        "status.json, data of each step in metrics.jsonl, of the run in "
        "summary.json.",
    .sections = "model,parallel,train,data,checkpoint,run,comm",
    .parallel = true,
    .run = train_run,
};
