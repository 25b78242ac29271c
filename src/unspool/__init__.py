"""unspool: what a language model writes, as what an API promises."""
