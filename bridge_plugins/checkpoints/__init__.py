"""torch_dist checkpoints made through the bridge, with the topology in their names; and Hugging Face folders from them."""
