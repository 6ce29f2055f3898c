"""Text of prompts, responses and tokens, made readable and safe."""
