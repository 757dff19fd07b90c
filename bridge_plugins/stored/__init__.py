"""Hugging Face folders on disk: which tensor lies where, from indices and headers alone. Start with `folder`."""
