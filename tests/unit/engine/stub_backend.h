/* A backend that answers agents with what a test wrote down, from the loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct stub_answer {
	const char *node;
	const char *first;   /* JSON object; NULL: the start fails */
	const char *second;  /* what it says after the engine's check refused the first; NULL: it does not ask */
	const char *session; /* the conversation that it leaves; NULL: none */
	unsigned steps;	     /* before its answer; each uses 10 tokens, and before each it says what it has used */
};

struct stub_backend {
	const struct stub_answer *answers;
	size_t n;
	unsigned starts, repairs;
	char *seen;  /* of the latest start: "model|system|user|choices|" */
	char *heard; /* of each start: "node=conversation", behind it "*" to fork it and "?" when it may be gone */
};
extern struct stub_backend stub_backend;

/* Registers it as "claw" and forgets what it saw. */
void stub_backend_begin(const struct stub_answer *answers, size_t n);
void stub_backend_end(void);
