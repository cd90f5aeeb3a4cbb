"""The kinds of channels: how a message leaves crawlctl."""
