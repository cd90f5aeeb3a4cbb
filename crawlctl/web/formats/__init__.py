"""The forms of moments on the set-up pages, where Django chooses a form by the language."""
