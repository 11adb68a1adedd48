/* A workflow's graph as Mermaid text. */
#pragma once

struct buf;
struct dsl_file;

enum dsl_diagram_level {
	DSL_DIAGRAM_PLAIN,    /* nodes and edges */
	DSL_DIAGRAM_DETAILED, /* with conditions, loops and what each node is */
	DSL_DIAGRAM_FULL,     /* with models, backends, schemas and the with maps' keys */
};

/* Appends the diagram; f has a workflow. Returns 0 or -ENOBUFS. */
int dsl_diagram(const struct dsl_file *f, enum dsl_diagram_level level, struct buf *to);
