/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The run directory: its lock, whole files, metrics across a resume, status.json. */
#include "regression/tap.h"
#include "io/lock.h"
#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/clock.h"
#include "penta/io/rundir.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *slurp(const char *path)
{
    static char text[1 << 17];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;

    text[n] = '\0';
    if (file)
        fclose(file);
    return file ? text : "(none)";
}

static void spill(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");

    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* Opening fails with the status, and the message holds the words. */
static void refuses(const char *path, pt_status_t wanted, const char *words)
{
    pt_rundir_t *dir;
    pt_status_t status = pt_rundir_open(path, &dir);

    tap_ok(status == wanted && !dir && strstr(pt_error_last()->text, words), "%s: %s",
           path, pt_error_last()->text);
    pt_error_clear();
    pt_rundir_close(dir);
}

static void test_open(void)
{
    pt_rundir_t *dir = NULL;
    struct stat info;

    tap_ok(pt_rundir_open("a/b/run", &dir) == PT_OK, "parents are made");
    if (!dir)
        return;
    tap_ok(strcmp(pt_rundir_path(dir), "a/b/run") == 0 &&
               strcmp(pt_rundir_checkpoints(dir), "a/b/run/checkpoints") == 0 &&
               stat("a/b/run/checkpoints", &info) == 0 && S_ISDIR(info.st_mode),
           "with checkpoints/");
    refuses("a/b/run", PT_CONFIG, "another run uses this directory");
    pt_rundir_close(dir);
    tap_ok(access("a/b/run/run.lock", F_OK) != 0, "the lock is gone with the run");
    spill("plain", "x");
    refuses("plain", PT_IO, "is not a directory");
    refuses("plain/run", PT_IO, "is not a directory");
    refuses("", PT_IO, "empty");
    symlink("nowhere", "dangling");
    refuses("dangling", PT_IO, "a dangling symbolic link");
    refuses("dangling/run", PT_IO, "a dangling symbolic link");
    symlink("a/b/run", "link");
    tap_ok(pt_rundir_open("link", &dir) == PT_OK, "a link to a directory is fine");
    pt_rundir_close(dir);
    mkdir("readonly", 0555);
    if (access("readonly", W_OK) == 0)
        tap_skip("this user can write anywhere");
    else
        refuses("readonly", PT_IO, "cannot be written");
}

/* What killed writers leave goes; what has another name is not ours. */
static void test_left_over(void)
{
    static const char *const gone[] = {"summary.json.0.4711.tmp", "status.json.12.1.tmp",
                                       "config.resolved.ini.0.99.tmp",
                                       "metrics.jsonl.tmp"},
                             *const stays[] = {"summary.json.0.tmp",
                                               "summary.json.x.1.tmp",
                                               "summary.json.0.1.tmp.gz",
                                               "notes.0.1.tmp",
                                               "summary.json",
                                               "summary.json.tmp"};
    char path[128];
    pt_rundir_t *dir = NULL;

    mkdir("left", 0777);
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        snprintf(path, sizeof path, "left/%s", gone[i]);
        spill(path, "half");
    }
    for (size_t i = 0; i < sizeof stays / sizeof stays[0]; i++) {
        snprintf(path, sizeof path, "left/%s", stays[i]);
        spill(path, "whole");
    }
    tap_ok(pt_rundir_open("left", &dir) == PT_OK, "a directory with left-overs");
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        snprintf(path, sizeof path, "left/%s", gone[i]);
        tap_ok(access(path, F_OK) != 0, "%s is gone", gone[i]);
    }
    for (size_t i = 0; i < sizeof stays / sizeof stays[0]; i++) {
        snprintf(path, sizeof path, "left/%s", stays[i]);
        tap_ok(access(path, F_OK) == 0, "%s stays", stays[i]);
    }
    pt_rundir_close(dir);
}

static void test_lock(void)
{
    pt_rundir_t *dir = NULL;
    char host[256], line[400];
    int pipes[2], status;
    char byte = 0;

    gethostname(host, sizeof host);
    mkdir("locked", 0777);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, &status, 0);
    snprintf(line, sizeof line, "%s %ld\n", host, (long)child);
    spill("locked/run.lock", line);
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK, "a dead run's lock is taken over");
    pt_rundir_close(dir);
    spill("locked/run.lock", "elsewhere.example 4711\n");
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK,
           "so is that of a host that is gone");
    tap_ok(pt_rundir_check_owner(dir) == PT_OK, "the directory is ours");
    spill("locked/run.lock", "elsewhere.example 4712\n");
    tap_ok(pt_rundir_check_owner(dir) == PT_CONFIG &&
               strstr(pt_error_last()->text, "host elsewhere.example, process 4712"),
           "a run elsewhere that took over is noticed: %s", pt_error_last()->text);
    pt_error_clear();
    pt_rundir_close(dir);
    tap_ok(access("locked/run.lock", F_OK) == 0, "and keeps its lock");
    spill("locked/run.lock", "\377\376 rubbish");
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK, "a lock without sense is none");
    pt_rundir_close(dir);

    if (pipe(pipes) != 0)
        return;
    child = fork();
    if (child == 0) {
        (void)!write(pipes[1], pt_rundir_open("locked", &dir) == PT_OK ? "y" : "n", 1);
        pause();
        _exit(0);
    }
    (void)!read(pipes[0], &byte, 1);
    snprintf(line, sizeof line, "process %ld", (long)child);
    tap_ok(byte == 'y', "another process opens it");
    refuses("locked", PT_CONFIG, line);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK, "and after it was killed, we do");
    pt_rundir_close(dir);
    child = fork();
    if (child == 0) {
        (void)!write(pipes[1], pt_rundir_open("locked", &dir) == PT_OK ? "y" : "n", 1);
        usleep(150000);
        _exit(0);
    }
    (void)!read(pipes[0], &byte, 1);
    tap_ok(byte == 'y' && pt_rundir_open("locked", &dir) == PT_OK,
           "a lock that somebody holds a moment longer is waited for");
    pt_rundir_close(dir);
    waitpid(child, &status, 0);
}

/* A child holds the lock of `line` for `msec`, then goes without cleaning up. */
static pid_t hold_lock(const char *line, int msec)
{
    int pipes[2];
    char byte;

    spill("locked/run.lock", line);
    if (pipe(pipes) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        int fd = open("locked/run.lock", O_RDWR);
        (void)!write(pipes[1], flock(fd, LOCK_EX) == 0 ? "y" : "n", 1);
        usleep((unsigned)msec * 1000);
        _exit(0);
    }
    (void)!read(pipes[0], &byte, 1);
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

/* A lock of which the file system does not know yet that its owner is dead. */
static void test_lock_waits(void)
{
    pt_rundir_t *dir = NULL;
    pt_lock_t lock;
    int status;
    double begun = pt_clock_sec();

    pid_t child = hold_lock("elsewhere.example 4711 0123456789abcdef\n", 3000);
    pt_status_t taken = pt_lock_take("locked", 0.5, &lock);
    tap_ok(taken == PT_CONFIG && strstr(pt_error_last()->text, "elsewhere.example") &&
               pt_clock_sec() - begun >= 0.9,
           "the lock of another host is not waited for longer than told: %s",
           pt_error_last()->text);
    pt_error_clear();
    pt_lock_release(&lock);
    tap_ok(pt_rundir_open_at_once("locked", &dir) == PT_CONFIG, "nor at all at once");
    pt_error_clear();
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK && pt_clock_sec() - begun >= 2.9,
           "but until the file system lets go");
    pt_rundir_close(dir);
    waitpid(child, &status, 0);
}

/* Identity is not the host's name, nor the process. */
static void test_lock_changes(void)
{
    pt_rundir_t *dir = NULL;
    char host[256], line[400];

    gethostname(host, sizeof host);
    unlink("locked/run.lock");
    tap_ok(pt_rundir_open("locked", &dir) == PT_OK, "a lock to play with");
    if (!dir)
        return;
    snprintf(line, sizeof line, "renamed.example 1%s",
             strrchr(slurp("locked/run.lock"), ' '));
    spill("locked/run.lock", line);
    tap_ok(pt_rundir_check_owner(dir) == PT_OK, "the host was renamed: still ours");
    snprintf(line, sizeof line, "%s %ld 0123456789abcdef\n", host, (long)getpid());
    spill("locked/run.lock", line);
    tap_ok(pt_rundir_check_owner(dir) == PT_CONFIG,
           "the same host and process number, another run: %s", pt_error_last()->text);
    pt_error_clear();
    unlink("locked/run.lock");
    tap_ok(pt_rundir_check_owner(dir) == PT_OK && access("locked/run.lock", F_OK) == 0,
           "removed by hand: made again");
    tap_ok(pt_rundir_check_owner(dir) == PT_OK, "and ours from then on");
    refuses("locked", PT_CONFIG, "another run uses this directory");
    unlink("locked/run.lock");
    spill("locked/run.lock", "other.example 12 0123456789abcdef\n");
    tap_ok(pt_rundir_check_owner(dir) == PT_CONFIG &&
               strstr(pt_error_last()->text, "host other.example, process 12"),
           "replaced by another run: %s", pt_error_last()->text);
    pt_error_clear();
    pt_rundir_close(dir);
    tap_ok(strncmp(slurp("locked/run.lock"), "other", 5) == 0, "whose lock stays");
    unlink("locked/run.lock");
    (void)pt_rundir_open("locked", &dir);
    rename("locked", "moved");
    tap_ok(pt_rundir_check_owner(dir) == PT_CONFIG &&
               strstr(pt_error_last()->text, "locked: removed"),
           "the directory is gone: %s", pt_error_last()->text);
    pt_error_clear();
    pt_rundir_close(dir);
}

static void test_files(void)
{
    pt_rundir_t *dir = NULL;
    struct stat info;

    tap_ok(pt_rundir_open("files", &dir) == PT_OK, "a directory for files");
    if (!dir)
        return;
    tap_ok(pt_rundir_write(dir, "x.ini", "one\n") == PT_OK &&
               pt_rundir_write(dir, "x.ini", "two\n") == PT_OK &&
               strcmp(slurp("files/x.ini"), "two\n") == 0,
           "a file is written and replaced");
    tap_ok(pt_rundir_write_json(dir, "s.json", json_pack("{s:i}", "steps", 3)) ==
                   PT_OK &&
               strcmp(slurp("files/s.json"), "{\n  \"steps\": 3\n}\n") == 0,
           "JSON is written as people read it");
    tap_ok(pt_rundir_write_json(dir, "n.json", NULL) == PT_INTERNAL, "%s",
           pt_error_last()->text);
    pt_error_clear();
    mkdir("files/d", 0777);
    mkdir("files/d/e", 0777);
    tap_ok(pt_rundir_write(dir, "d", "x") == PT_IO, "%s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(pt_file_write("files/none/x", "x") == PT_IO, "%s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(system("ls -A files | grep -q tmp") != 0, "no temporary file is left");
    tap_ok(pt_file_write("/dev/full/x", "x") == PT_IO, "%s", pt_error_last()->text);
    pt_error_clear();
    symlink("target", "files/linked");
    spill("files/target", "old");
    tap_ok(pt_rundir_write(dir, "linked", "new") == PT_OK &&
               strcmp(slurp("files/target"), "old") == 0 &&
               lstat("files/linked", &info) == 0 && S_ISREG(info.st_mode),
           "a link is replaced, not followed");
    pt_rundir_close(dir);
}

static void test_metrics(void)
{
    static const char kept[] = "{\"step\":1,\"loss\":3.0}\n{\"note\":true}\n"
                               "{\"step\":2,\"loss\":2.5}\n";
    pt_rundir_t *dir = NULL;
    char text[512];

    tap_ok(pt_rundir_open("m", &dir) == PT_OK && pt_rundir_open_metrics(dir, 0) == PT_OK,
           "metrics begin empty");
    if (!dir)
        return;
    tap_ok(pt_rundir_add_metrics(dir, json_pack("{s:i,s:f}", "step", 1, "loss", 3.0)) ==
                   PT_OK &&
               strcmp(slurp("m/metrics.jsonl"), "{\"step\":1,\"loss\":3.0}\n") == 0,
           "a line is there at once");
    tap_ok(pt_rundir_add_metrics(dir, NULL) == PT_INTERNAL, "%s", pt_error_last()->text);
    pt_error_clear();
    pt_rundir_close(dir);

    snprintf(text, sizeof text, "%s%s", kept,
             "{\"step\":3,\"loss\":2.0}\n{\"step\":4}\n{\"step\":5,\"lo");
    spill("m/metrics.jsonl", text);
    tap_ok(pt_rundir_open("m", &dir) == PT_OK &&
               pt_rundir_open_metrics(dir, 2) == PT_OK &&
               strcmp(slurp("m/metrics.jsonl"), kept) == 0,
           "lines after the loaded step and the torn one go");
    tap_ok(pt_rundir_add_metrics(dir, json_pack("{s:i}", "step", 3)) == PT_OK,
           "a new one");
    pt_rundir_close(dir);
    snprintf(text, sizeof text, "%s{\"step\":3}\n", kept);
    tap_ok(strcmp(slurp("m/metrics.jsonl"), text) == 0, "follows the kept ones");

    spill("m/metrics.jsonl", "{\"step\":1}\n{\"step\":2}");
    tap_ok(pt_rundir_open("m", &dir) == PT_OK &&
               pt_rundir_open_metrics(dir, 9) == PT_OK &&
               strcmp(slurp("m/metrics.jsonl"), "{\"step\":1}\n") == 0,
           "a last line without its end is torn");
    pt_rundir_close(dir);
    FILE *file = fopen("m/metrics.jsonl", "wb");
    fwrite("{\"step\":1}\n{\0\0}\n{\"step\":2}\n", 1, 27, file);
    fclose(file);
    tap_ok(pt_rundir_open("m", &dir) == PT_OK &&
               pt_rundir_open_metrics(dir, 9) == PT_OK &&
               strcmp(slurp("m/metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n") == 0,
           "of a line with NULs only that line is lost");
    pt_rundir_close(dir);

    file = fopen("m/metrics.jsonl", "wb");
    for (int i = 0; i < 200000; i++)
        fputc('x', file);
    fputs("\n{\"step\":1}\n", file);
    fclose(file);
    tap_ok(pt_rundir_open("m", &dir) == PT_OK &&
               pt_rundir_open_metrics(dir, 9) == PT_OK &&
               strcmp(slurp("m/metrics.jsonl"), "{\"step\":1}\n") == 0,
           "rubbish of any length goes");
    pt_rundir_close(dir);
}

/* What batch scripts read of a run at work, one key a line. */
static void test_heartbeat(void)
{
    static const char wanted[] = "{\n  \"code\": null,\n  \"name\": \"RUNNING\",\n"
                                 "  \"sentence\": \"at work\",\n  \"message\": \"\",\n"
                                 "  \"reason\": null,\n  \"rank\": 0,\n";
    static const char rest[] =
        "  \"step\": 7,\n  \"steps\": 50,\n  \"phase\": \"set-up\",\n"
        "  \"checkpoint_step\": null,\n  \"ranks\": 3,\n"
        "  \"started\": \"1970-01-02T00:00:00Z\",\n  \"time\": \"";
    const pt_run_status_t beat = {.is_running = true,
                                  .step = 7,
                                  .steps = 50,
                                  .checkpoint_step = -1,
                                  .ranks = 3,
                                  .started = 86400};

    pt_alloc_seal();
    bool written = pt_status_write("s", &beat);
    pt_alloc_unseal();
    tap_ok(written && strncmp(slurp("s/status.json"), wanted, strlen(wanted)) == 0 &&
               strstr(slurp("s/status.json"), rest),
           "a heartbeat, also where nothing may be allocated");
    tap_ok(system("ls -A s | grep -q tmp") != 0, "nothing is left beside it");
    tap_ok(!pt_status_write("no/such/place", &beat),
           "false where it cannot be written");
    mkdir("s2", 0777);
    mkdir("s2/status.json", 0777);
    tap_ok(!pt_status_write("s2", &beat) && system("ls -A s2 | grep -q tmp") != 0 &&
               pt_error_last()->status == PT_OK,
           "also where a directory is in its place");
}

static void test_status(void)
{
    json_t *object;
    pt_run_status_t what = {.status = PT_IO, .message = "x", .step = 1};

    pt_status_write("no/such/place", &what);
    tap_ok(pt_error_last()->status == PT_OK, "without a directory nothing happens");
    mkdir("s", 0777);
    PT_FAIL(PT_IO, "the disk \"ate\" it\n\xff");
    what = (pt_run_status_t){.status = PT_IO, .step = 12, .checkpoint_step = -1};
    pt_status_write("s", &what);
    object = json_load_file("s/status.json", 0, NULL);
    tap_ok(json_integer_value(json_object_get(object, "code")) == 4 &&
               json_integer_value(json_object_get(object, "step")) == 12 &&
               strcmp(json_string_value(json_object_get(object, "name")), "IO") == 0 &&
               strstr(json_string_value(json_object_get(object, "message")), "ate") !=
                   NULL,
           "status.json tells code, name, step and message");
    json_decref(object);
    tap_ok(pt_error_last()->status == PT_IO && !pt_error_last()->reported,
           "the error record is as it was");
    pt_error_clear();
    what = (pt_run_status_t){.status = PT_OK, .message = "finished", .step = 13};
    pt_status_write("s", &what);
    object = json_load_file("s/status.json", 0, NULL);
    tap_ok(json_integer_value(json_object_get(object, "code")) == 0 &&
               json_integer_value(json_object_get(object, "step")) == 13,
           "it is replaced");
    json_decref(object);
    test_heartbeat();
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* A file that takes only a part of a line, as a full disk does. */
static void test_torn(void)
{
    static const char first[] = "{\"step\":1}\n",
                      all[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";
    pt_rundir_t *dir = NULL;
    signal(SIGXFSZ, SIG_IGN);
    tap_ok(pt_rundir_open("torn", &dir) == PT_OK &&
               pt_rundir_open_metrics(dir, 0) == PT_OK &&
               pt_rundir_add_metrics(dir, json_pack("{s:i}", "step", 1)) == PT_OK,
           "a line is written");
    limit_files(sizeof first - 1 + 5); /* also of what this test prints */
    pt_status_t status = pt_rundir_add_metrics(dir, json_pack("{s:i}", "step", 2));
    limit_files(RLIM_INFINITY);
    tap_ok(status == PT_IO, "the next has no room: %s", pt_error_last()->text);
    pt_error_clear();
    tap_ok(strcmp(slurp("torn/metrics.jsonl"), first) == 0, "nothing of it is left");
    tap_ok(pt_rundir_add_metrics(dir, json_pack("{s:i}", "step", 3)) == PT_OK &&
               strcmp(slurp("torn/metrics.jsonl"), all) == 0,
           "it is written with the one after it");
    tap_ok(access("torn/status.reserve", F_OK) == 0, "room is kept for status.json");
    pt_rundir_close(dir);
    tap_ok(access("torn/status.reserve", F_OK) != 0, "and given back");
}

static void test_published(void)
{
    tap_ok(pt_published_read("no/such/record") == -1, "nothing is on record");
    tap_ok(pt_published_write("published.json", 40) == PT_OK &&
               pt_published_read("published.json") == 40,
           "a step is on record");
    spill("published.json", "{\"step\": 4");
    tap_ok(pt_published_read("published.json") == -1, "half a record is none");
    mkfifo("pipe", 0600);
    tap_ok(pt_published_read("pipe") == -1, "nor is a pipe, which nobody waits for");
    mkdir("p", 0777);
    tap_ok(pt_status_checkpoint_step("p") == -1, "no status.json");
    spill("p/status.json", "{\"code\": null, \"checkpoint_step\": 7}");
    tap_ok(pt_status_checkpoint_step("p") == 7, "status.json tells of a checkpoint");
    spill("p/status.json", "{\"checkpoint_step\": null}");
    tap_ok(pt_status_checkpoint_step("p") == -1, "or of none");
}

int main(void)
{
    int64_t live = pt_alloc_live_bytes();

    test_open();
    test_left_over();
    test_lock();
    test_lock_waits();
    test_lock_changes();
    test_files();
    test_metrics();
    test_torn();
    test_published();
    test_status();
    tap_ok(pt_alloc_live_bytes() == live, "nothing is left allocated");
    return tap_done();
}
