/* Copyright (c) The gpu-docker Authors
 * SPDX-License-Identifier: MPL-2.0 */

/* The state of the host as this process sees it: a flat text of key=value lines,
 * read from the state directory when it changed, or, where that directory is not
 * there, the copy that was written into this file when the host was made. */
#define _GNU_SOURCE
#include "state.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Filled by the host builder, which finds it by its first word. */
static volatile const struct {
	char magic[16];
	char state_dir[1024];
	char version[48];
	char inventory[SIM_INVENTORY_MAX];
} blob __attribute__((section(".simhost"), used)) = {"SIMHOST-BLOB-01"};

struct pair {
	const char *key, *value;
};

/* The state read last. sim_lock guards it. */
static struct {
	char *text;
	struct pair *pairs;
	size_t count;
	int contained, known;
	struct timespec mtime;
	ino_t inode;
	off_t size;
} state;

static int compare_pairs(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

/* Takes over text (heap memory) as the new state. */
static void adopt(char *text)
{
	size_t lines = 1;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	struct pair *pairs = calloc(lines, sizeof *pairs);
	if (!pairs) {
		free(text);
		return;
	}
	size_t count = 0;
	char *rest = text, *line;
	while ((line = strsep(&rest, "\n"))) {
		char *equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = 0;
		pairs[count++] = (struct pair){line, equals + 1};
	}
	qsort(pairs, count, sizeof *pairs, compare_pairs);
	free(state.text);
	free(state.pairs);
	state.text = text;
	state.pairs = pairs;
	state.count = count;
}

static char *read_file(const char *path, off_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	char *text = malloc(size + 1);
	ssize_t got = 0, n = 0;
	while (text && got < size && (n = read(fd, text + got, size - got)) > 0)
		got += n;
	close(fd);
	if (text)
		text[got] = 0;
	return text;
}

void sim_state_refresh(void)
{
	char path[1100];
	snprintf(path, sizeof path, "%s/state", sim_state_dir());
	struct stat st;
	if (stat(path, &st) != 0) {
		if (!state.known || !state.contained) {
			adopt(strdup((const char *)blob.inventory));
			state.known = state.contained = 1;
		}
		return;
	}
	if (state.known && !state.contained && st.st_ino == state.inode && st.st_size == state.size &&
	    st.st_mtim.tv_sec == state.mtime.tv_sec && st.st_mtim.tv_nsec == state.mtime.tv_nsec)
		return;
	char *text = read_file(path, st.st_size);
	if (!text)
		return;
	adopt(text);
	state.known = 1;
	state.contained = 0;
	state.inode = st.st_ino;
	state.size = st.st_size;
	state.mtime = st.st_mtim;
}

const char *sim_state_get(const char *key)
{
	struct pair wanted = {key, NULL};
	const struct pair *found = bsearch(&wanted, state.pairs, state.count, sizeof wanted, compare_pairs);
	return found ? found->value : NULL;
}

const char *sim_text(const char *format, ...)
{
	char key[128];
	va_list args;
	va_start(args, format);
	vsnprintf(key, sizeof key, format, args);
	va_end(args);
	return sim_state_get(key);
}

int sim_number(unsigned long long *out, const char *format, ...)
{
	char key[128];
	va_list args;
	va_start(args, format);
	vsnprintf(key, sizeof key, format, args);
	va_end(args);
	const char *value = sim_state_get(key);
	if (!value)
		return 0;
	*out = strtoull(value, NULL, 0);
	return 1;
}

int sim_contained(void) { return state.contained; }
const char *sim_state_dir(void) { return (const char *)blob.state_dir; }
const char *sim_library_version(void) { return (const char *)blob.version; }
