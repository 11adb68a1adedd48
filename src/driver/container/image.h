/* What an engine says about an image: whether it is there, and how far a pull has come. */
#pragma once

#include <base/str.h>
#include <stdbool.h>
#include <stddef.h>

/* The words of `image inspect --format` whose answer image_parse reads. */
extern const char image_format[];

/* Strings are owned; NULL: the engine did not say. */
struct image_facts {
	char *digest; /* sha256:…, of the repository's manifest when it came from one, else of the image itself */
	char *architecture;
	struct strv env; /* "NAME=value": what it gives every program in it */
};
void image_facts_done(struct image_facts *f);

/* Fills ret from the answer; -EPROTO when it is none. */
int image_parse(const char *text, size_t len, struct image_facts *ret) __attribute__((warn_unused_result));

/* One line of a pull's progress, as docker and podman print it when nobody looks. */
struct pull_line {
	char layer[72];
	bool done; /* the layer is there */
};

/* Whether the line tells of a layer. */
bool image_pull_line(const char *line, struct pull_line *ret);

/* How far a pull is, by its layers: those seen and those done. */
struct pull_layer {
	char id[72];
	bool done;
};
struct pull_count {
	struct pull_layer *layers;
	size_t n, cap;
	size_t n_done;
};

/* Takes one line; true when the count changed, with the layer that it was about (borrowed). Layers past a bound are not
 * counted. */
bool pull_count_line(struct pull_count *c, const char *line, const char **ret_layer);
void pull_count_done(struct pull_count *c);
