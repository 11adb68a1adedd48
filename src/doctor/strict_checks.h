/* The checks of strict.c, one function each; q->arg is the struct strict_params. */
#pragma once

#include "question.h"

#include <doctor/strict.h>
#include <sandbox/spec.h>

void strict_driver(const struct question *q, struct finding *f);
void strict_spec(const struct question *q, struct finding *f);
void strict_daemon(const struct question *q, struct finding *f);
void strict_safety(const struct question *q, struct finding *f);
void strict_image(const struct question *q, struct finding *f);
void strict_k8s_spec(const struct question *q, struct finding *f);
void strict_k8s_context(const struct question *q, struct finding *f);
void strict_network(const struct question *q, struct finding *f);
void strict_capabilities(const struct question *q, struct finding *f);
void strict_kernel(const struct question *q, struct finding *f);
void strict_workspace(const struct question *q, struct finding *f);
void strict_secrets(const struct question *q, struct finding *f);
void strict_disk(const struct question *q, struct finding *f);
